//go:build !linux && !darwin

package loader

import "github.com/confinectl/confinectl/resolve"

// terminals is only needed where there is an arm.
func terminals() []string { return nil }

func userTmp(*resolve.Facts) string { return "" }
