package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/confinectl/confinectl/internal/command"
)

// version is the release that this tree leads to; CHANGELOG.md says what is in it.
const version = "0.1.0-dev"

func versionCommand(c *cli) *command.Command {
	var asJSON bool
	cmd := &command.Command{
		Use:    "version",
		Short:  "Print the version, the commit and the platform",
		NoArgs: true,
	}
	cmd.Run = func(command.Args) error {
		out := struct {
			Version  string `json:"version"`
			Commit   string `json:"commit,omitempty"`
			Go       string `json:"go"`
			Platform string `json:"platform"`
		}{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" {
					out.Commit = s.Value
				}
			}
		}
		if asJSON {
			return c.printJSON(c.stdout, out)
		}
		_, err := fmt.Fprintf(c.stdout, "confinectl %s %s %s\n", out.Version, out.Platform, out.Go)
		return err
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func jsonFlag(cmd *command.Command, on *bool) {
	cmd.Flags.BoolVar(on, "json", false, "print one JSON document")
}
