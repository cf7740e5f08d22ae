//go:build !linux

package loader

// terminals is only needed by the Landlock arm.
func terminals() []string { return nil }
