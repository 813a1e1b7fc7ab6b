package host

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// guestBinary is where a machine finds the executable behind sudo, cloud-init and SFTP.
const guestBinary = "/usr/lib/hive-sim/guest"

// enterRoot gives this process, which has a mount namespace of its own, the machine's root: an overlay over the real
// machine's /, whose changes are the machine's disk. Nothing that it mounts is seen outside.
func enterRoot(cfg guestConfig) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// Relative names, so that no character of the state directory's path can be taken for an option.
	if err := os.Chdir(cfg.Dir); err != nil {
		return fmt.Errorf("enter the machine's directory: %w", err)
	}
	outer, err := outerMounts()
	if err != nil {
		return err
	}
	if err := mountOverlay(); err != nil {
		return err
	}
	root := filepath.Join(cfg.Dir, "root")
	for _, step := range []func() error{
		func() error { return bindOuter(root, outer) },
		func() error { return mountKernel(root) },
		func() error { return mountDev(filepath.Join(root, "dev")) },
		func() error { return hide(root, append(slices.Clone(cfg.Hide), filepath.Dir(cfg.Dir))) },
		func() error { return bindGuest(root, cfg.Guest) },
		func() error { return pivot(root) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// mountOverlay mounts the disk at root, in the machine's directory. A machine that has just been cut off may still hold
// it for a moment.
func mountOverlay() error {
	const opts = "lowerdir=/,upperdir=upper,workdir=work"
	for wait := time.Millisecond; ; wait *= 2 {
		err := unix.Mount("overlay", "root", "overlay", 0, opts)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || wait > time.Second {
			return fmt.Errorf("mount an overlay over / (the state directory's file system must be able to hold one; "+
				"in a container, use a volume): %w", err)
		}
		time.Sleep(wait)
	}
}

// outerMounts lists directories with programs that are file systems of their own; an overlay shows one file system
// only.
func outerMounts() ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	defer func() { _ = f.Close() }()
	var dirs []string
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		fields := strings.Fields(sc.Text())
		if len(fields) < 5 {
			continue
		}
		dir := strings.ReplaceAll(fields[4], `\040`, " ")
		for _, top := range []string{"/usr", "/opt", "/bin", "/sbin", "/lib", "/lib64"} {
			if dir == top || strings.HasPrefix(dir, top+"/") {
				dirs = append(dirs, dir)
			}
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return dirs, nil
}

func bindOuter(root string, dirs []string) error {
	for _, dir := range dirs {
		if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
			continue
		}
		target := filepath.Join(root, dir)
		if err := unix.Mount(dir, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("show %s in the machine: %w", dir, err)
		}
		if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("protect %s in the machine: %w", dir, err)
		}
	}
	return nil
}

// mountKernel mounts what a machine's kernel would offer, with everything read-only that is not the machine's own.
func mountKernel(root string) error {
	mounts := []struct {
		fstype, dir string
		flags       uintptr
		data        string
	}{
		{"proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"sysfs", "sys", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_RDONLY, ""},
		{"tmpfs", "run", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
		{"tmpfs", "tmp", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
		{"tmpfs", "dev", unix.MS_NOSUID, "mode=755,size=1m"},
	}
	for _, m := range mounts {
		dir := filepath.Join(root, m.dir)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make /%s: %w", m.dir, err)
		}
		if err := unix.Mount(m.fstype, dir, m.fstype, m.flags, m.data); err != nil {
			return fmt.Errorf("mount /%s: %w", m.dir, err)
		}
	}
	for _, name := range []string{"sys", "sysrq-trigger", "irq", "bus"} {
		p := filepath.Join(root, "proc", name)
		if _, err := os.Stat(p); err != nil {
			continue
		}
		if err := unix.Mount(p, p, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("protect /proc/%s: %w", name, err)
		}
		flags := uintptr(
			unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC,
		)
		if err := unix.Mount("", p, "", flags, ""); err != nil {
			return fmt.Errorf("protect /proc/%s: %w", name, err)
		}
	}
	return os.MkdirAll(filepath.Join(root, "run/lock"), 0o1777)
}

// mountDev fills a fresh /dev with the few devices that are safe to share.
func mountDev(dev string) error {
	devices := map[string]uint64{
		"null": unix.Mkdev(1, 3), "zero": unix.Mkdev(1, 5), "full": unix.Mkdev(1, 7),
		"random": unix.Mkdev(1, 8), "urandom": unix.Mkdev(1, 9), "tty": unix.Mkdev(5, 0),
	}
	for name, num := range devices {
		p := filepath.Join(dev, name)
		if err := unix.Mknod(p, unix.S_IFCHR|0o666, int(num)); err != nil {
			return fmt.Errorf("make /dev/%s: %w", name, err)
		}
		if err := os.Chmod(p, 0o666); err != nil {
			return fmt.Errorf("make /dev/%s: %w", name, err)
		}
	}
	links := map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
		"stderr": "/proc/self/fd/2",
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return fmt.Errorf("make /dev/%s: %w", name, err)
		}
	}
	for dir, m := range map[string]struct{ fstype, data string }{
		"pts": {"devpts", "newinstance,ptmxmode=0666,mode=0620,gid=5"}, "shm": {"tmpfs", "mode=1777"},
	} {
		p := filepath.Join(dev, dir)
		if err := os.Mkdir(p, 0o755); err != nil {
			return fmt.Errorf("make /dev/%s: %w", dir, err)
		}
		if err := unix.Mount(m.fstype, p, m.fstype, unix.MS_NOSUID|unix.MS_NOEXEC, m.data); err != nil {
			return fmt.Errorf("mount /dev/%s: %w", dir, err)
		}
	}
	return nil
}

// hide covers directories of the real machine with nothing.
func hide(root string, dirs []string) error {
	for _, dir := range dirs {
		p := filepath.Join(root, dir)
		if fi, err := os.Lstat(p); err != nil || !fi.IsDir() {
			continue // not on the root file system, so not to be seen anyway
		}
		if err := unix.Mount("tmpfs", p, "tmpfs", unix.MS_RDONLY, "mode=000,size=4k"); err != nil {
			return fmt.Errorf("hide %s from the machine: %w", dir, err)
		}
	}
	return nil
}

// bindGuest shows the set-uid executable in the machine, under the names of the commands it answers to.
func bindGuest(root, guest string) error {
	p := filepath.Join(root, guestBinary)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return fmt.Errorf("make %s: %w", filepath.Dir(guestBinary), err)
	}
	f, err := os.OpenFile(p, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return fmt.Errorf("make %s: %w", guestBinary, err)
	}
	_ = f.Close()
	if err := unix.Mount(guest, p, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("show %s in the machine: %w", guestBinary, err)
	}
	// The flags are set anew: a state directory mounted nosuid or noexec must not disable sudo.
	if err := unix.Mount("", p, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("protect %s: %w", guestBinary, err)
	}
	for _, name := range []string{"usr/bin/sudo", "usr/bin/cloud-init", "usr/bin/apt-get", "usr/bin/journalctl"} {
		if err := linkTo(filepath.Join(root, name), guestBinary); err != nil {
			return err
		}
	}
	return nil
}

// linkTo makes path a symbolic link to target, whatever it was.
func linkTo(path, target string) error {
	if old, err := os.Readlink(path); err == nil && old == target {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	if err := os.Symlink(target, path); err != nil {
		return fmt.Errorf("link %s: %w", path, err)
	}
	return nil
}

func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("enter the machine's root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change to the machine's root: %w", err)
	}
	// The old root is now stacked on the new one, and is the first that "." unmounts.
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the real root: %w", err)
	}
	return os.Chdir("/")
}
