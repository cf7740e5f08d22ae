package enforce

import (
	"fmt"

	"github.com/confinectl/confinectl/resolve"
)

// Differs says where a host of a Landlock ABI does something else with a file than
// the rules of a boundary say, in sentences about "it". kind is what the file is, 0 where it does not
// exist; granted is what the rules say. What no ABI confines is not repeated here.
func Differs(kind resolve.Kind, granted func(resolve.Access) bool, abi int) (list []string) {
	step := func(since int, applies bool, text string) {
		if applies && abi < since {
			list = append(list, fmt.Sprintf("%s: confined from Landlock ABI %d on, and this host uses %d", text, since, abi))
		}
	}
	step(3, kind == resolve.RegularFile && !granted(resolve.Write), "truncate(2) empties it all the same")
	step(5, kind == resolve.Device && granted(resolve.Read) && !granted(resolve.Ioctl), "ioctl(2) on it works all the same")
	step(9, kind == resolve.Socket && !granted(resolve.Connect), "connecting to it works all the same")
	if abi < 2 && granted(resolve.Names) {
		list = append(list, fmt.Sprintf("nothing can be renamed or linked into another directory: possible from Landlock ABI 2 on, and this host uses %d", abi))
	}
	return list
}
