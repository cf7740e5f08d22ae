package enforce

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// underABI is confined below a kernel as fakeabi describes it.
func (w *world) underABI(flags string, l launch, ops ...string) (map[string]string, verdict, int) {
	w.t.Helper()
	args := append(strings.Fields(flags), "--", w.path("bin/t"))
	out, v, status := w.process("fakeabi", []string{"ENFORCE_NEXT=launch", "ENFORCE_LAUNCH=" + w.encode(l, ops)}, nil, args...)
	return results(out), v, status
}

func TestOtherKernelsAreRefused(t *testing.T) {
	needABI(t, 3)
	for _, c := range []struct {
		flags, policy string
		codes         []string
		contains      string
	}{
		{"-v 0", `{}`, []string{"arm-missing"}, "lsm="},
		{"-e EOPNOTSUPP", `{}`, []string{"arm-missing"}, "disabled at boot"},
		{"-e ENOSYS", `{}`, []string{"arm-missing"}, "built without Landlock"},
		{"-e EPERM", `{}`, []string{"arm-missing"}, "container"},
		{"-e ENOSYS", `{"min_abi": 9, "linux": {"audit": true}}`, []string{"arm-missing"}, ""},
		{"-v 1", `{}`, []string{"abi-below-floor"}, "offers Landlock ABI 1"},
		{"-v 2", `{}`, []string{"abi-below-floor"}, "offers Landlock ABI 2, and the policy writes no floor: 3 holds"},
		{"-v 1", `{"min_abi": 2}`, []string{"abi-below-floor"}, "min_abi = 2"},
		{"-v 5", `{"min_abi": 6}`, []string{"abi-below-floor"}, "ABI 5, and the policy asks for at least 6"},
		{"-v 6 -x 1", `{"min_abi": 6}`, []string{"abi-below-floor"}, "ABI 6, used as 5 because erratum 2"},
		{"-v 99", `{"min_abi": 12}`, []string{"abi-below-floor"}, "ABI 99, used as "},
		{"-v 6", `{"linux": {"audit": true}}`, []string{"abi-below-floor"}, "audit = true"},
		{"-v 4", `{"min_abi": 6, "linux": {"audit": true}, "agent_scratch": {"agent": "x"}}`, []string{"abi-below-floor", "abi-below-floor", "inexpressible"}, "provision"},
		{"-v 7", `{"agent_scratch": {"agent": "x"}}`, []string{"inexpressible"}, "nobody provisions"},
		{"-a EINVAL", `{}`, []string{"apply-failed"}, ": invalid argument"},
		{"-a EBADFD", `{}`, []string{"apply-failed"}, "landlock_add_rule: "},
		{"-r EPERM", `{}`, []string{"apply-failed"}, "landlock_restrict_self: operation not permitted"},
		{"-r E2BIG", `{}`, []string{"layer-limit"}, "16 layers"},
	} {
		w := newWorld(t, os.Getuid())
		got, v, status := w.underABI(c.flags, launch{Policy: c.policy}, "write|%in/f")
		slices.Sort(v.Codes)
		if status != StatusRefused || !slices.Equal(v.Codes, c.codes) || !strings.Contains(v.Text, c.contains) || strings.Contains(v.Text, "BUG") {
			t.Errorf("%s %s: status %d: %v %s", c.flags, c.policy, status, v.Codes, v.Text)
		}
		if len(got) > 0 {
			t.Errorf("%s %s: it ran: %v", c.flags, c.policy, got)
		}
	}
}

// TestOtherKernelsAreUsed runs at every ABI that this kernel can pretend to
// have. What the ABI has is held, and what it has not is open: this is how
// one sees that the handled set follows the ABI.
func TestOtherKernelsAreUsed(t *testing.T) {
	needABI(t, 3)
	real := Probe().Used
	for _, c := range []struct {
		abi                      int // that the kernel must really have
		flags, policy            string
		truncate, rename, signal string
	}{
		{3, "-v 1", `{"min_abi": 1}`, "ok", "EXDEV", "ok"},
		{3, "-v 2", `{"min_abi": 1}`, "ok", "ok", "ok"},
		{3, "-v 2", `{"linux": {"min_abi": 2}}`, "ok", "ok", "ok"},
		{3, "-v 3", `{}`, "EACCES", "ok", "ok"},
		{4, "-v 4", `{"min_abi": 4}`, "EACCES", "ok", "ok"},
		{5, "-v 5", `{}`, "EACCES", "ok", "ok"},
		{6, "-v 6 -x 1", `{}`, "EACCES", "ok", "ok"},
		{6, "-v 6", `{"min_abi": 6}`, "EACCES", "ok", "EPERM"},
		{7, "-v 7", `{"linux": {"audit": true}}`, "EACCES", "ok", "EPERM"},
		{7, "-v 8", `{"min_abi": 7}`, "EACCES", "ok", "EPERM"},
		{7, "-v 99", `{"min_abi": 7}`, "EACCES", "ok", "EPERM"},
		{6, "", `{}`, "EACCES", "ok", "EPERM"},
	} {
		if real < c.abi {
			t.Logf("NOT TESTED: %q needs Landlock ABI %d, this kernel has %d", c.flags, c.abi, real)
			continue
		}
		asEach(t, func(t *testing.T, uid int) {
			w := newWorld(t, uid)
			ops := []string{"write|%in/f", "write|%out/f", "read|%out/f", "truncate|%out/f", "rename|%in/f|%in/a/f", fmt.Sprintf("signal|%d", outsider(t, uid))}
			got, v, status := w.underABI(c.flags, launch{Policy: c.policy}, ops...)
			if status != 0 {
				t.Fatalf("%s %s: status %d: %+v", c.flags, c.policy, status, v)
			}
			for i, want := range []string{"ok", "EACCES", "EACCES", c.truncate, c.rename, c.signal} {
				if r := got[w.expand(ops[i])]; r != want {
					t.Errorf("%s %s: %s: %s, want %s", c.flags, c.policy, ops[i], r, want)
				}
			}
		})
	}
}

func TestProbe(t *testing.T) {
	needABI(t, 1)
	h := Probe()
	if h.Arm != "landlock" || h.Release == "" || h.Offered < h.Used || h.Used > NewestABI || (h.Lowered == "") != (h.Offered == h.Used) {
		t.Errorf("%+v", h)
	}
}
