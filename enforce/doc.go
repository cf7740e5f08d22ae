// Package enforce puts a boundary into effect, in full or not at all.
//
// [Compile] asks whether this host can enforce every part of a
// [resolve.Boundary] and answers with a [Plan] or a refusal; nothing about the process has
// changed by then. [Plan.Exec] confines the calling process and becomes the
// command. [Plan.Start] starts the command confined below a Go program that stays as
// it is. [Plan.LaunchSpec] says what a caller in another language spawns.
//
// The host chooses the arm: Landlock on Linux, Seatbelt on macOS. What a boundary means in the
// arm's words ([Landlock], [Seatbelt]) is computed by code without an operating system
// suffix; the files with a suffix only apply it, and the file for every other
// system refuses. The package does not log, keeps no state and has no init.
package enforce
