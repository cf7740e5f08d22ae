// Package sbpleval reads a Seatbelt profile and says what it allows, on any
// operating system. It is what holds the macOS arm as long as no Mac is at hand, so it
// knows nothing of the code that writes the profiles: it imports nothing of this
// project, its reader is its own, and its vocabulary is closed. A word that it does not
// know, and every rule that could mean more than it says, is an error.
//
// How Seatbelt orders rules is disputed in public. [Profile.Allows] takes both
// accounts, Apple's published rule library of OS X 10.11 and "the last rule that matches", and
// refuses to answer where they differ. [Scheme] asks the same questions of a second
// reader and evaluator that shares no code with the first: Debian's tinyscheme, an interpreter of the family
// that Apple embeds, which executes the text as the program that it is.
//
// Both are models. What the kernel does is measured by test/seatbelt on a Mac.
package sbpleval
