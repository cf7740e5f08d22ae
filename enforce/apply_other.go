//go:build !linux && !darwin

package enforce

import (
	"runtime"

	"github.com/confinectl/confinectl/resolve"
)

// Probe says that there is nothing to enforce with.
func Probe() Host { return Host{Missing: noArm()} }

func compileHere(*resolve.Boundary) (*Plan, error) { return nil, noArm() }

func noArm() *resolve.Refusal {
	return &resolve.Refusal{Code: resolve.ArmMissing, Subject: runtime.GOOS, Detail: "no arm for this operating system"}
}

// Exec refuses: arm-missing.
func (p *Plan) Exec([]int) error { return noArm() }

// Rehearse refuses: arm-missing.
func (p *Plan) Rehearse() error { return noArm() }

// Start refuses: arm-missing.
func (p *Plan) Start(StartOptions) (*Process, error) { return nil, noArm() }
