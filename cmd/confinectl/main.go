// Confinectl runs a trusted program inside a filesystem boundary that a
// profile declares: all of it, or a named refusal with nothing executed.
package main

import "os"

func main() { os.Exit(run(os.Args, os.Environ(), os.Stdin, os.Stdout, os.Stderr)) }
