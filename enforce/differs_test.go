package enforce

import (
	"strings"
	"testing"

	"github.com/confinectl/confinectl/resolve"
)

func TestDiffers(t *testing.T) {
	for _, c := range []struct {
		kind    resolve.Kind
		granted resolve.Access
		abi     int
		want    string
	}{
		{resolve.RegularFile, resolve.Read, 2, "truncate(2)"},
		{resolve.RegularFile, resolve.Read, 3, ""},
		{resolve.RegularFile, resolve.Read | resolve.Write, 2, ""},
		{resolve.Device, resolve.Read | resolve.Write, 4, "ioctl(2)"},
		{resolve.Device, resolve.Read | resolve.Write, 5, ""},
		{resolve.Device, 0, 4, ""},
		{resolve.Socket, 0, 8, "connecting"},
		{resolve.Socket, 0, 9, ""},
		{resolve.Socket, resolve.Connect, 8, ""},
		{resolve.Directory, resolve.ReadWrite, 1, "renamed or linked"},
		{resolve.Directory, resolve.ReadWrite, 2, ""},
		{0, 0, 7, ""},
	} {
		got := strings.Join(Differs(c.kind, c.granted.Has, c.abi), "; ")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%v %v at ABI %d: %q, want %q", c.kind, c.granted, c.abi, got, c.want)
		}
	}
}
