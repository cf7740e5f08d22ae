// Package cost counts what one start of confinectl does between its own execve
// and that of the command: system calls, files opened, bytes read, rules added. Unlike
// time these do not depend on the machine, so they are held: a start that does more than the
// numbers in cost_linux_test.go fails. What a start takes is measured by bench and told in docs/benchmarks.md.
package cost
