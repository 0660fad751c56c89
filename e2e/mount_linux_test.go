package e2e

import "golang.org/x/sys/unix"

func mount(dir, size string) error {
	return unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size)
}

func unmount(dir string) error { return unix.Unmount(dir, unix.MNT_DETACH) }
