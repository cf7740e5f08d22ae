// Package escapes measures every way out of the boundary that we know of,
// through `confinectl exec`, on the kernel it runs on.
//
// It has no code of its own: the tests are the package. Each row of the table
// is one attempt. The test binary runs itself twice for a row, on a fresh
// fixture: once unconfined, where the attempt must succeed (the control), and
// once as the command of `confinectl exec`. What counts is the verdict that the
// attempt reports and what the fixture looks like from outside afterwards; the
// two must agree.
//
// As root every row is measured twice, as root and as uid 1000, in a mount
// namespace of its own; otherwise only as the caller. -v prints the table as
// Markdown, ESCAPES_TABLE names a file to write it to, and CONFINECTL names a
// binary to measure instead of building one:
//
//	CONFINECTL=$PWD/confinectl ESCAPES_TABLE=$PWD/table.md go test ./test/escapes
//
// Rows come from the measurement of plain Landlock that preceded the design;
// the ids E3 to E25 are its numbers for what gets out of a bare domain.
package escapes
