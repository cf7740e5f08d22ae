//go:build !linux

package resolve

import "testing"

func asOrdinaryUser(_ *testing.T, f func()) { f() }
