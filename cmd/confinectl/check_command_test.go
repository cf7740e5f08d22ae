package main

import "testing"

func TestTracedDenial(t *testing.T) {
	for line, want := range map[string][3]string{
		`123 openat(AT_FDCWD</here>, "/etc/shadow", O_RDONLY) = -1 EACCES (Permission denied)` + "\n": {"openat", "/etc/shadow", "EACCES"},
		`openat(AT_FDCWD</here>, "../x", O_WRONLY|O_CREAT, 0666) = -1 EACCES (Permission denied)`:     {"openat", "/here/../x", "EACCES"},
		`7 unlinkat(5</a b/c>, "d \"e\"\n", 0)   = -1 EPERM (Operation not permitted)`:                {"unlinkat", "/a b/c/d \"e\"\n", "EPERM"},
		`9 rename("/a", "/b")   = -1 EXDEV (Invalid cross-device link)`:                               {"rename", "/a", "EXDEV"},
		`9 connect(3<socket:[77]>, {sa_family=AF_UNIX, sun_path="/run/x.sock"}, 14) = -1 EACCES (P)`:  {"connect", "/run/x.sock", "EACCES"},
		`9 mkdir("rel", 0777) = -1 EACCES (Permission denied)`:                                        {"mkdir", "rel", "EACCES"},
		`9 write(1</x>, "a = -1 EACCES b", 15) = 15`:                                                  {},
		`9 openat(AT_FDCWD</here>, "/nope", O_RDONLY) = -1 ENOENT (No such file or directory)`:        {},
		`9 kill(1, SIGTERM) = -1 EPERM (Operation not permitted)`:                                     {},
		`9 openat(AT_FDCWD</here>, "/etc/x`:                                                           {},
		`9 +++ exited with 0 +++`:                                                                     {},
		"":                                                                                            {},
	} {
		call, path, errno := tracedDenial(line)
		if got := [3]string{call, path, errno}; got != want {
			t.Errorf("%s\n%q, want %q", line, got, want)
		}
	}
}

func TestAuditedDenial(t *testing.T) {
	for record, want := range map[string]string{
		`6,1,2,-;audit: type=1423 audit(1.2:3): domain=1a blockers=fs.read_file path="/etc/shadow" dev="vda" ino=7`: "/etc/shadow (fs.read_file)",
		`type=LANDLOCK_ACCESS msg=audit(1): domain=1 blockers=fs.write_file,fs.truncate path="/a b"`:                "/a b (fs.write_file,fs.truncate)",
		`audit: type=1423 blockers=scope.signal opid=7 ocomm="init"`:                                                "",
		`audit: type=1424 domain=1a status=allocated`:                                                               "",
		`audit: blockers=fs.read_file path="/cut`:                                                                   "",
	} {
		if got := auditedDenial(record); got != want {
			t.Errorf("%s\n%q, want %q", record, got, want)
		}
	}
}
