//go:build !darwin

package resolve

// spelling is the real path itself: one file has one name.
func (w *Walker) spelling(real string, _ Stat) (string, error) { return real, nil }
