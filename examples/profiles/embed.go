// Package examples holds the profiles that are part of the program: the lowest
// layer of the search path.
package examples

import "embed"

// FS has every built-in profile as NAME.toml.
//
//go:embed *.toml
var FS embed.FS
