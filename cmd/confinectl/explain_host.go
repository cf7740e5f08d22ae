package main

import (
	"os"

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/resolve"
)

// onThisHost says what is different here from what the rules say about a path.
func onThisHost(b *resolve.Boundary, e resolve.Explanation) []string {
	h := enforce.Probe()
	if h.Missing != nil {
		return []string{"nothing runs under this profile on this host: " + h.Missing.Error()}
	}
	if h.Arm != "landlock" {
		return []string{}
	}
	list := []string{}
	if h.Used < floor(b) {
		list = append(list, "nothing runs under this profile on this host: "+string(resolve.ABIBelowFloor)+": "+floorText(b))
	}
	return append(list, enforce.Differs(kindOf(e.Real), func(a resolve.Access) bool { return e.By(a) != nil }, h.Used)...)
}

// kindOf is 0 for what no rule can be for, and for what is not there.
func kindOf(path string) resolve.Kind {
	info, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return resolve.Stat{Mode: info.Mode()}.Kind()
}
