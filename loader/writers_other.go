//go:build !linux

package loader

// keepWritersOut knows no way to learn who has a file open.
func keepWritersOut(int) error { return nil }
