//go:build !linux && !darwin

package loader

import (
	"syscall"

	"github.com/confinectl/confinectl/resolve"
)

// terminals is only needed where there is an arm.
func terminals() []string { return nil }

func userTmp(*resolve.Facts) string { return "" }

func getwd() (string, error) { return syscall.Getwd() }
