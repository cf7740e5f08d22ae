//go:build !linux

package probe

import (
	"context"
	"errors"

	"github.com/confinectl/confinectl/enforce"
)

// errNoArm: on macOS the boundary is measured by test/seatbelt so far.
var errNoArm = errors.New("the probe measures the Landlock arm only")

// denies knows no errno of another system.
func (c *Case) denies(int) bool { return false }

// A Prober measures nothing here.
type Prober struct{}

// New refuses: there is no arm to measure.
func New(Options) (*Prober, error) { return nil, errNoArm }

// Command is empty: no Prober exists.
func (p *Prober) Command() []string { return nil }

// Variable is empty: no Prober exists.
func (p *Prober) Variable() string { return "" }

// Close does nothing.
func (p *Prober) Close() {}

// Measure measures nothing, and says so.
func (p *Prober) Measure(context.Context, *enforce.Plan) Report {
	return Report{Unmeasured: errNoArm.Error()}
}

// Inside refuses.
func Inside() error { return errNoArm }

// Outer says nothing.
func Outer([]string) string { return "" }
