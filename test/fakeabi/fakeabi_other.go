//go:build !linux

package fakeabi

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// Main refuses.
func Main() {
	_, err := Run(Spec{}, os.Args)
	fmt.Fprintln(os.Stderr, "fakeabi:", err)
	os.Exit(125)
}

// Run refuses: only Linux has Landlock.
func Run(Spec, []string) (int, error) { return 125, errors.New("only Linux has Landlock") }

func parseErrno(s string) (syscall.Errno, error) {
	n, err := strconv.Atoi(s)
	return syscall.Errno(n), err
}
