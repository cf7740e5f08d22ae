package enforce

import "golang.org/x/sys/unix"

// droppedCapabilities are those that write to files, or read them, without
// opening one, so that no Landlock rule is ever asked: by mounting, through device
// nodes, ports, modules, programs in the kernel, other processes' memory, file
// flags, handles or another kernel. test/escapes measures the doors that this closes.
var droppedCapabilities = [...]uint{
	unix.CAP_SYS_ADMIN, unix.CAP_MKNOD, unix.CAP_SYS_RAWIO, unix.CAP_SYS_MODULE, unix.CAP_SYS_PTRACE, unix.CAP_PERFMON,
	unix.CAP_BPF, unix.CAP_LINUX_IMMUTABLE, unix.CAP_DAC_READ_SEARCH, unix.CAP_SYS_BOOT,
}

// dropCapabilities gives up droppedCapabilities on the calling thread, from
// the bounding set as well. It does nothing for an ordinary user that holds none of
// them: no_new_privs keeps it from ever getting one. Lowering the permitted and the
// inheritable set lowers the ambient set with them, capabilities(7).
//
// All or nothing is left to the caller: a capability that cannot be dropped is apply-failed.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return applyFailed("capget", err)
	}
	var drop [2]uint32
	for _, c := range droppedCapabilities {
		drop[c/32] |= 1 << (c % 32)
	}
	held := false
	for i := range have {
		held = held || (have[i].Permitted|have[i].Inheritable)&drop[i] != 0
	}
	if !held && unix.Geteuid() != 0 {
		return nil
	}
	for _, c := range droppedCapabilities {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
		if err == nil {
			continue
		}
		if there, unknown := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0); unknown != nil || there != 0 {
			r := applyFailed("PR_CAPBSET_DROP", err)
			r.Hints = []string{"start confinectl with CAP_SETPCAP, or without the capabilities that it drops"}
			return r
		}
	}
	if !held {
		return nil
	}
	for i := range have {
		have[i].Effective &^= drop[i]
		have[i].Permitted &^= drop[i]
		have[i].Inheritable &^= drop[i]
	}
	if err := unix.Capset(&header, &have[0]); err != nil {
		return applyFailed("capset", err)
	}
	return nil
}
