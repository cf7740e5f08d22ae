package profiles

import (
	"os"
	"testing"
)

// BenchmarkParse reads two of the examples: every launch reads one such document or a few.
func BenchmarkParse(b *testing.B) {
	for _, name := range []string{"claude-cli", "workspace"} {
		data, err := os.ReadFile("../examples/profiles/" + name + ".toml")
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(name, "FILE", data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
