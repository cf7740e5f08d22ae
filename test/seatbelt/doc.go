// Package seatbelt holds the macOS arm. On every system two evaluators that share no
// code with the renderer, nor with each other, judge the rendered text by a matrix that was written
// by hand; mutants of the text show that the matrix would notice. On Linux the
// same policies are asked of the Landlock kernel as well. On a Mac the questions that
// nobody has answered in public are measured first, and then the matrix is attempted for
// real, each denial with its control.
package seatbelt
