package seatbelt

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// TestRealMatrix attempts every row of the matrix that can be attempted, against
// the real sandbox-exec. A row's control comes first: unconfined it must succeed, on fresh
// files, or the row proves nothing and the test fails.
func TestRealMatrix(t *testing.T) {
	m := newMac(t)
	other := exec.Command("/bin/sleep", "1000") // a process outside to signal
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Process.Kill(); other.Wait() })
	rows := 0
	for _, r := range matrix(t, m.places) {
		if r.modelOnly {
			continue
		}
		rows++
		a := [3]string{r.op, r.path, r.to}
		if r.op == "signal" {
			a[2] = strconv.Itoa(other.Process.Pid)
		}
		if r.op == "sysctl" {
			a[1] = "parent"
		}
		if !r.allowed {
			m.fill()
			if got := m.free(a); got != "yes" {
				t.Errorf("%s: the control does not succeed unconfined: %s", r.text, got)
			}
			if r.op == "create" || r.op == "mkdir" || r.op == "bind" { // those outside the fixture
				os.Remove(r.path)
			}
		}
		m.fill()
		got := m.confined(policyText, a)[0]
		if want := map[bool]string{true: "yes", false: "no"}[r.allowed]; got != want {
			t.Errorf("%s: %s", r.text, got)
		}
	}
	t.Logf("%d rows attempted", rows)
	if rows < 100 {
		t.Errorf("only %d rows", rows)
	}
}
