//go:build !linux

package findings

import (
	"time"

	"github.com/confinectl/confinectl/resolve"
)

// A Scanner gives only what the boundary itself shows: no tree is looked at here yet.
type Scanner struct {
	Facts *resolve.Facts
	Time  time.Duration
	Own   string
}

// NewScanner looks at nothing.
func NewScanner(f *resolve.Facts) *Scanner { return &Scanner{Facts: f} }

// Scan gives the findings of [Static], and says that no root was looked at.
func (s *Scanner) Scan(b *resolve.Boundary, _ int) []Finding {
	list := Static(b)
	for _, r := range b.Rules() {
		if r.Kind == resolve.Directory && r.Access.Has(resolve.Write|resolve.Names) {
			list = append(list, of(ScanLimited, r.Path, "it was not looked at on this system"))
		}
	}
	return Sort(list)
}
