package pve

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// storageKind is what a type of storage does in its own way, as Proxmox VE's storage plugins have it (pve-storage,
// src/PVE/Storage/*Plugin.pm).
type storageKind struct {
	content  []string // what it can hold
	initial  []string // what it holds where nothing is asked
	required []string // options that an entry needs
	options  []string // others that it takes
	shared   bool     // by its nature, whatever the entry says

	// What follows is of block storages, whose images are no files. Their volume is nil for the others.
	volume  *regexp.Regexp // the names of images; the group vmid is their VM's
	noun    string         // what such a name is called where it cannot be read
	nested  bool           // a linked clone's name begins with its base's
	anyDisk bool           // a format that is asked is not looked at; the others know raw only
	path    func(st *storage, name string) string
	full    func(st *storage, name string, size, free int64) string // what is said where a new image finds no room
	stuck   func(st *storage, name string) string                   // and where one cannot grow
}

// onFiles are the types of content that only files can be.
func onFiles(others ...string) []string {
	return append([]string{"images", "rootdir", "vztmpl", "iso", "backup", "snippets", "import"}, others...)
}

// storageKinds are the types of storage that the simulator plays. Never changed.
var storageKinds = map[string]storageKind{
	"dir": {
		content: onFiles("none"), initial: []string{"images", "rootdir", "vztmpl", "iso"}, required: []string{"path"},
		options: []string{
			"shared", "mkdir", "create-base-path", "create-subdirs", "is_mountpoint", "preallocation", "format",
			"prune-backups",
		},
	},
	"nfs": {
		content: onFiles(), initial: []string{"images"}, required: []string{"server", "export"}, shared: true,
		options: []string{
			"path", "options", "mkdir", "create-base-path", "create-subdirs", "preallocation", "format",
			"prune-backups",
		},
	},
	"lvmthin": {
		content: []string{"images", "rootdir"}, initial: []string{"images", "rootdir"},
		required: []string{"thinpool", "vgname"},
		volume:   regexp.MustCompile(`^(?:vm|base)-(?P<vmid>\d+)-\S+$`), noun: "lvm",
		path: func(st *storage, name string) string { return "/dev/" + st.Options["vgname"] + "/" + name },
		full: func(st *storage, name string, size, free int64) string {
			return fmt.Sprintf("lvcreate '%s/%s' error:   Volume group \"%[1]s\" has insufficient free space (%[3]d extents): %[4]d required.",
				st.Options["vgname"], name, max(free, 0)/(4*mib), size/(4*mib))
		},
		stuck: func(st *storage, name string) string {
			return fmt.Sprintf(
				"error resizing volume '/dev/%s/%s':   Insufficient free space", st.Options["vgname"], name,
			)
		},
	},
	"zfspool": {
		content: []string{"images", "rootdir"}, initial: []string{"images", "rootdir"}, required: []string{"pool"},
		options: []string{"blocksize", "sparse", "mountpoint"},
		volume:  regexp.MustCompile(`^(?:(?:base|basevol)-\d+-\S+/)?(?:base|basevol|vm|subvol)-(?P<vmid>\d+)-\S+$`),
		noun:    "zfs", nested: true,
		path: func(st *storage, name string) string {
			return "/dev/zvol/" + st.Options["pool"] + "/" + path.Base(name)
		},
		full: func(st *storage, name string, _, _ int64) string {
			return fmt.Sprintf("zfs error: cannot create '%s/%s': out of space", st.Options["pool"], name)
		},
		stuck: func(st *storage, name string) string {
			return fmt.Sprintf(
				"zfs error: cannot set property for '%s/%s': size is greater than available space", st.Options["pool"],
				name,
			)
		},
	},
	"rbd": {
		content: []string{"images", "rootdir"}, initial: []string{"images"}, shared: true,
		options: []string{"monhost", "pool", "data-pool", "namespace", "username", "krbd", "keyring"},
		volume:  regexp.MustCompile(`^(?:base-\d+-\S+/)?(?:base|vm)-(?P<vmid>\d+)-\S+$`), noun: "rbd", nested: true,
		anyDisk: true,
		path: func(st *storage, name string) string {
			return "rbd:" + rbdPool(st) + "/" + path.Base(name) + ":conf=/etc/pve/ceph.conf"
		},
		full: func(_ *storage, name string, _, _ int64) string {
			return fmt.Sprintf("rbd create '%s' error: rbd: create error: (28) No space left on device", name)
		},
		stuck: func(_ *storage, name string) string {
			return fmt.Sprintf("rbd resize '%s' error: rbd: resize error: (28) No space left on device", name)
		},
	},
}

// rbdPool is the pool that Ceph takes where an entry names none.
func rbdPool(st *storage) string {
	if pool := st.Options["pool"]; pool != "" {
		return pool
	}
	return "rbd"
}

func (s *storage) kind() storageKind { return storageKinds[s.Type] }

// block reports whether the storage's images are no files.
func (s *storage) block() bool { return s.kind().volume != nil }

// linked is the name of a linked clone's image: that of its base comes first, but on LVM.
func (s *storage) linked(base, name string) string {
	switch {
	case !s.block():
		return base + "/" + name
	case s.kind().nested:
		return path.Base(base) + "/" + name
	}
	return name
}

// parse is the type of content that a volume's name says, and the VM of an image.
func (s *storage) parse(name string) (content string, vmid int, err error) {
	kind := s.kind()
	if kind.volume == nil {
		content, vmid, ok := contentOf(name)
		if !ok {
			return "", 0, failf("unable to parse directory volume name '%s'", name)
		}
		return content, vmid, nil
	}
	m := kind.volume.FindStringSubmatch(name)
	if m == nil {
		return "", 0, failf("unable to parse %s volume name '%s'", kind.noun, name)
	}
	vmid, err = strconv.Atoi(m[kind.volume.SubexpIndex("vmid")])
	return "images", vmid, err
}

// format is the format of a new disk. One that the storage cannot make is refused, unless it is only what the disk that
// is copied has.
func (s *storage) format(asked string) (string, error) {
	kind := s.kind()
	switch {
	case asked == "":
		return "raw", nil
	case kind.volume == nil:
		return asked, nil
	case asked != "raw" && !kind.anyDisk:
		return "", fmt.Errorf("unsupported format '%s'", asked)
	}
	return "raw", nil
}

// newStorage reads what POST /storage asks for.
func newStorage(c *call) (*storage, error) {
	kind, ok := storageKinds[c.get("type")]
	if !ok {
		return nil, failf(
			"create storage failed: the simulator makes storages of the types %s only",
			strings.Join(sortedKeys(storageKinds), ", "),
		)
	}
	st := &storage{
		ID: c.get("storage"), Type: c.get("type"), Options: map[string]string{},
		Shared: kind.shared || c.bool("shared"),
	}
	for _, k := range sortedKeys(c.params) {
		switch {
		case slices.Contains([]string{"storage", "type", "content", "bwlimit"}, k):
		case k == "nodes":
			st.Nodes = splitList(c.get(k))
		case k == "disable":
			return nil, failf("create storage failed: the simulator plays no '%s'", k)
		case slices.Contains(kind.required, k) || slices.Contains(kind.options, k):
			st.Options[k] = c.get(k)
		default:
			return nil, failf("unexpected property '%s'", k)
		}
	}
	for _, k := range kind.required {
		if st.Options[k] == "" {
			return nil, failf("missing value for required option '%s'", k)
		}
	}
	if st.Type == "nfs" && st.Options["path"] == "" {
		st.Options["path"] = "/mnt/pve/" + st.ID
	}
	st.Path = st.Options["path"]
	delete(st.Options, "path")
	delete(st.Options, "shared")
	var err error
	st.Content, err = kind.askedContent(c)
	return st, err
}

// askedContent is what an entry is to hold. What the type cannot hold is passed over, as Proxmox VE does with a warning
// in its log.
func (k storageKind) askedContent(c *call) ([]string, error) {
	content := splitList(c.get("content"))
	if len(content) == 0 {
		content = slices.Clone(k.initial)
	}
	content = slices.DeleteFunc(content, func(t string) bool { return !slices.Contains(k.content, t) })
	if len(content) == 0 {
		return nil, failf("storage does not support content type 'none'")
	}
	slices.Sort(content)
	return content, nil
}
