// Package kernels holds confinectl against real kernels: one for each Landlock
// ABI, one that has none, one that has it disabled.
//
// It has no code of its own: the tests are the package. The script run puts the test
// binary, confinectl and test/escapes into an initramfs and boots Debian's kernels
// with it; the test binary is also the init of the guest. What must come of each
// attempt stands in a table by ABI in guest_linux_test.go, taken from the kernel's
// documentation and not from this program. `go test ./test/kernels` runs the same tests on
// the kernel of this host. docs/kernels.md has the measured table.
package kernels
