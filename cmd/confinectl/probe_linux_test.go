package main

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
)

func init() {
	// hide DIR… -- CMD… runs CMD in a mount namespace in which each DIR is
	// covered by an empty directory. /dev keeps null alone.
	probes["hide"] = func(a []string) error {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		cmd := exec.Command(self, append([]string{"hidden"}, a...)...)
		cmd.Args[0] = "probe"
		cmd.Args = append([]string{"probe", "hidden"}, a...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		err = cmd.Run()
		if exit, ok := err.(*exec.ExitError); ok {
			os.Exit(exit.ExitCode())
		}
		return err
	}
	probes["hidden"] = func(a []string) error {
		if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			return err
		}
		dash := slices.Index(a, "--")
		for _, dir := range a[:dash] {
			null := -1
			if dir == "/dev" {
				var err error
				if null, err = syscall.Open("/dev/null", 0x200000 /* O_PATH */, 0); err != nil {
					return err
				}
			}
			if err := syscall.Mount("none", dir, "tmpfs", 0, "mode=0755"); err != nil {
				return err
			}
			if null >= 0 {
				if err := os.WriteFile("/dev/null", nil, 0o600); err != nil {
					return err
				}
				if err := syscall.Mount("/proc/self/fd/"+strconv.Itoa(null), "/dev/null", "", syscall.MS_BIND, ""); err != nil {
					return err
				}
				syscall.Close(null)
			}
		}
		return become(a[dash+1:])
	}
}
