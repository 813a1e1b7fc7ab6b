package pve

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
)

// newDiskSize is the size of a disk to make ("local:32" is 32 GiB), and whether the volume asks for one.
func newDiskSize(file string) (storageID string, size int64, ok bool) {
	st, rest, found := strings.Cut(file, ":")
	if !found || !newDiskPattern.MatchString(rest) {
		return "", 0, false
	}
	return st, parseSize(rest + "G"), true
}

// filePath is where a volume's file or device is on a hypervisor.
func (s *Server) filePath(v *volume) string {
	st := s.state.Storages[v.Storage]
	switch {
	case st == nil: // was removed with its volumes still there
		return "/dev/" + v.Storage + "/" + v.Name
	case st.block():
		return st.kind().path(st, v.Name)
	}
	return dirPath(st, v.Name)
}

func dirPath(st *storage, name string) string {
	kind, rest, _ := strings.Cut(name, "/")
	switch kind {
	case "iso":
		return path.Join(st.Path, "template/iso", rest)
	case "vztmpl":
		return path.Join(st.Path, "template/cache", rest)
	case "snippets", "import":
		return path.Join(st.Path, kind, rest)
	case "backup":
		return path.Join(st.Path, "dump", rest)
	}
	return path.Join(st.Path, "images", name)
}

// contentOf is the content type that a volume's name says, and its VM for images.
func contentOf(name string) (content string, vmid int, ok bool) {
	kind, rest, _ := strings.Cut(name, "/")
	switch kind {
	case "iso", "vztmpl", "snippets", "import", "backup":
		return kind, 0, rest != ""
	}
	if id, err := strconv.Atoi(kind); err == nil && rest != "" {
		return "images", id, true
	}
	return "", 0, false
}

// checkDrive is what PVE checks of a disk before it answers: the storage, its content, the privilege to use it.
func (s *Server) checkDrive(c *call, key string, d drive) error {
	file := d.file()
	if file == "none" || file == "cdrom" {
		return nil
	}
	if strings.HasPrefix(file, "/") {
		return failf("Only root can pass arbitrary filesystem paths. at /usr/share/perl5/PVE/Storage.pm line 581.")
	}
	storageID, _, _ := strings.Cut(file, ":")
	if strings.HasSuffix(file, ":cloudinit") {
		return nil // no privilege is asked for, and whether the storage exists shows only in the task (both observed)
	}
	from := d["import-from"]
	if _, size, isNew := newDiskSize(file); isNew {
		if err := s.need(c.who, "/storage/"+storageID, "Datastore.AllocateSpace"); err != nil {
			return err
		}
		if err := s.checkImages(storageID); err != nil {
			return err
		}
		if from == "" {
			return nil
		}
		if size != 0 {
			return badParam(key, "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>")
		}
		return s.checkImport(c, key, from)
	}
	if from != "" {
		return badParam(key, "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>")
	}
	return s.checkVolumeAccess(c, storageID, file)
}

func (s *Server) checkVolumeAccess(c *call, storageID, volid string) error {
	if s.state.Storages[storageID] == nil {
		return failf("storage '%s' does not exist", storageID)
	}
	if !s.can(c.who, "/storage/"+storageID, true, "Datastore.AllocateSpace", "Datastore.Audit") {
		return forbidden("/storage/"+storageID, "Datastore.AllocateSpace", "Datastore.Audit")
	}
	_, name, _ := strings.Cut(volid, ":")
	_, _, err := s.state.Storages[storageID].parse(name)
	return err
}

func (s *Server) checkImages(storageID string) error {
	st := s.state.Storages[storageID]
	if st == nil {
		return failf("storage '%s' does not exist", storageID)
	}
	if !st.holds("images") {
		return badParam("storage", "storage '%s' does not support vm images", storageID)
	}
	return nil
}

func (s *Server) checkImport(c *call, key, from string) error {
	if strings.HasPrefix(from, "/") {
		return failf("Only root can pass arbitrary filesystem paths. at /usr/share/perl5/PVE/Storage.pm line 581.")
	}
	storageID, name, _ := strings.Cut(from, ":")
	if err := s.checkVolumeAccess(c, storageID, from); err != nil {
		return err
	}
	content, _, _ := s.state.Storages[storageID].parse(name) // checkVolumeAccess has read it
	if content != "images" && content != "import" {
		return badParam(key, "%s has wrong type '%s' - needs to be 'images' or 'import'", from, content)
	}
	return nil
}

// allocate makes an image volume. Called with the mutex held. An empty format is the storage's default.
func (s *Server) allocate(node, storageID string, vmid int, format string, size int64) (*volume, error) {
	return s.allocateNamed(node, storageID, vmid, "disk", format, size)
}

func (s *Server) allocateNamed(node, storageID string, vmid int, kind, format string, size int64) (*volume, error) {
	st := s.state.Storages[storageID]
	if st == nil {
		return nil, fmt.Errorf("storage '%s' does not exist", storageID)
	}
	if err := st.on(node); err != nil {
		return nil, err
	}
	if !st.holds("images") {
		return nil, fmt.Errorf("storage '%s' does not support content-type 'images'", storageID)
	}
	if format == "" || st.block() {
		format = "raw"
	}
	v := &volume{
		Node: st.place(node), Storage: storageID, Content: "images", Format: format, Size: size,
		Used: min(size, 196*kib), VMID: vmid,
		CTime: time.Now().Unix(), Blank: kind == "disk",
	}
	v.Name = s.freeName(node, st, vmid, kind, format)
	if err := s.room(node, st, v); err != nil {
		return nil, err
	}
	s.state.Volumes = append(s.state.Volumes, v)
	return v, nil
}

// freeName is the lowest free disk name of a VM on a storage.
func (s *Server) freeName(node string, st *storage, vmid int, kind, format string) string {
	id := strconv.Itoa(vmid)
	prefix, suffix := "", ""
	if !st.block() {
		prefix, suffix = id+"/", "."+format
	}
	if kind == "cloudinit" {
		return prefix + "vm-" + id + "-cloudinit" + suffix
	}
	taken := map[string]bool{}
	for _, v := range s.state.Volumes {
		if v.Storage == st.ID && (v.Node == node || v.Node == "") {
			base := path.Base(v.Name)
			taken[strings.TrimSuffix(base, path.Ext(base))] = true
		}
	}
	for n := 0; ; n++ {
		name := id + "-" + kind + "-" + strconv.Itoa(n)
		if !taken["vm-"+name] && !taken["base-"+name] {
			return prefix + "vm-" + name + suffix
		}
	}
}

func (s *Server) free(node string, st *storage) int64 { return st.Capacity - s.state.used(node, st.ID) }

// room refuses an image that does not fit, with the words of the tools that PVE calls.
func (s *Server) room(node string, st *storage, v *volume) error {
	free, size, file := s.free(node, st), v.Size, s.filePath(v)
	if size <= free {
		return nil
	}
	if st.block() {
		return errors.New(st.kind().full(st, v.Name, size, free))
	}
	if size > 16<<40 {
		return fmt.Errorf("unable to create image: qemu-img: %s: The image size is too large for file format '%s'", file,
			strings.TrimPrefix(path.Ext(file), "."))
	}
	return fmt.Errorf("unable to create image: qemu-img: %s: Could not resize file: No space left on device", file)
}

// formatting is the line that qemu-img writes to a task's log.
func (s *Server) formatting(v *volume) string {
	if v.Format == "qcow2" {
		return fmt.Sprintf("Formatting '%s', fmt=qcow2 cluster_size=65536 extended_l2=off preallocation=metadata "+
			"compression_type=zlib size=%d lazy_refcounts=off refcount_bits=16", s.filePath(v), v.Size)
	}
	return fmt.Sprintf("Formatting '%s', fmt=%s size=%d preallocation=off", s.filePath(v), v.Format, v.Size)
}

// copied is what a task's log says of a volume that is filled from another. Version 9 says first that it is there
// (recorded).
func (s *Server) copied(v *volume) []string {
	lines := transferred(v.Size)
	if s.version != Version84 {
		lines = append([]string{fmt.Sprintf("allocated target volume '%s'", v.id())}, lines...)
	}
	return lines
}

func transferred(size int64) []string {
	gb := float64(size) / gib
	line := func(part float64) string {
		done := fmt.Sprintf("%.1f GiB", gb*part)
		if part == 0 {
			done = "0.0 B"
		}
		return fmt.Sprintf("transferred %s of %.1f GiB (%.2f%%)", done, gb, part*100)
	}
	return []string{line(0), line(0.5), line(1), line(1)}
}

// virtualSize is the size of the disk that an image file holds. What was uploaded keeps its own; the seeded image is a
// 2 GiB disk in a smaller file.
func (v *volume) virtualSize() int64 {
	if v.Content == "images" {
		return v.Size
	}
	if v.id() == SeedImage || v.id() == SeedImport {
		return seedVirtualSize
	}
	return max(v.Size, mib)
}

// made is what a task has allocated, so that it can be taken back.
type made struct {
	volumes []*volume
	log     []string
}

// makeDrive allocates what a drive asks for and returns the option's text. Called with the mutex held.
func (s *Server) makeDrive(node string, vmid int, key string, d drive, template bool, m *made) (string, error) {
	file := d.file()
	storageID, _, _ := strings.Cut(file, ":")
	switch {
	case file == "none" || file == "cdrom":
		return d.text(), nil
	case strings.HasSuffix(file, ":cloudinit"):
		return s.makeCloudInit(node, vmid, key, d, m)
	case d["import-from"] != "":
		return s.makeImport(node, vmid, key, storageID, d, m)
	}
	_, size, isNew := newDiskSize(file)
	if !isNew {
		v := s.state.volume(node, file)
		if v == nil {
			return "", fmt.Errorf("volume '%s' does not exist", file)
		}
		if v.Content == "images" && !d.cdrom() {
			d["size"] = formatSize(v.Size)
		}
		return d.text(), nil
	}
	if err := s.canFormat(storageID, d["format"]); err != nil {
		return "", err
	}
	v, err := s.allocate(node, storageID, vmid, d["format"], max(size, mib))
	if err != nil {
		return "", err
	}
	m.volumes = append(m.volumes, v)
	m.log = append(m.log, s.formatting(v))
	if template {
		v.Name = strings.Replace(v.Name, "vm-", "base-", 1)
	}
	d["file"], d["size"] = v.id(), formatSize(v.Size)
	m.log = append(m.log, fmt.Sprintf("%s: successfully created disk '%s'", key, d.text()))
	return d.text(), nil
}

// canFormat refuses a format that a storage cannot make. A disk that is copied gets another one instead, and no
// refusal.
func (s *Server) canFormat(storageID, format string) error {
	st, err := s.storage(storageID)
	if err == nil {
		_, err = st.format(format)
	}
	return err
}

func (s *Server) makeCloudInit(node string, vmid int, key string, d drive, m *made) (string, error) {
	storageID, _, _ := strings.Cut(d.file(), ":")
	if err := s.canFormat(storageID, d["format"]); err != nil {
		return "", err
	}
	format := cmp.Or(d["format"], "qcow2")
	v, err := s.allocateNamed(node, storageID, vmid, "cloudinit", format, 4*mib)
	if err != nil {
		return "", err
	}
	m.volumes = append(m.volumes, v)
	d["file"], d["media"] = v.id(), "cdrom"
	m.log = append(m.log, s.formatting(v), fmt.Sprintf("%s: successfully created disk '%s'", key, d.text()))
	return d.text(), nil
}

func (s *Server) makeImport(node string, vmid int, key, storageID string, d drive, m *made) (string, error) {
	from := d["import-from"]
	src := s.state.volume(node, from)
	if src == nil {
		fromStorage, name, _ := strings.Cut(from, ":")
		return "", fmt.Errorf("failed to stat '%s'", s.filePath(&volume{Storage: fromStorage, Name: name}))
	}
	format := d["format"]
	if format == "" {
		format = src.Format
	}
	if format != "qcow2" && format != "raw" && format != "vmdk" {
		format = "raw"
	}
	v, err := s.allocate(node, storageID, vmid, format, src.virtualSize())
	if err != nil {
		return "", fmt.Errorf("cannot import from '%s' - %w", from, err)
	}
	v.Blank = false
	m.volumes = append(m.volumes, v)
	m.log = append(m.log, "create full clone of drive ("+from+")", s.formatting(v))
	m.log = append(m.log, s.copied(v)...)
	// The size that the caller gives is ignored (observed): the disk has its source's size until it is resized.
	d["file"], d["size"] = v.id(), formatSize(v.Size)
	m.log = append(m.log, fmt.Sprintf("%s: successfully created disk '%s'", key, d.text()))
	return d.text(), nil
}

func (s *Server) undo(m *made) {
	for _, v := range m.volumes {
		s.state.removeVolume(v)
	}
}

// addLog appends lines to a task's log. Called with the mutex held.
func (t *task) addLog(lines ...string) { t.rec.Log = append(t.rec.Log, lines...) }
