// Package resolve turns a policy into a boundary: what a program may reach, in
// the real paths of this host.
//
// It is the narrow waist of confinectl. A [Policy] says what somebody wants and claims
// nothing; [Facts] say what this host and this caller are; [Resolve] puts the two
// together into a [Boundary], or refuses by name. Everything that enforces
// takes a Boundary and nothing else.
//
// The package imports nothing of this project and no third-party module but
// a strict JSON reader. It does not log, keeps no state and starts no process.
// Resolve looks at the file system and changes nothing there.
package resolve
