// Exec is a floor: a Go program that does nothing but become its arguments. No
// launcher whose Go runtime starts can cost less.
package main

import (
	"os"
	"syscall"
)

func main() {
	syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
	os.Exit(127)
}
