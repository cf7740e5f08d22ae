// Confinectl runs a trusted program inside a filesystem boundary that a
// profile declares: all of it, or a named refusal with nothing executed.
package main

import (
	"os"
	"runtime"
)

func main() {
	growStack()
	runtime.LockOSThread()
	os.Exit(run(os.Args, os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

//go:noinline
func growStack() byte {
	var room [20 << 10]byte
	return room[len(os.Args)%len(room)]
}
