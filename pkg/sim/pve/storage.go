package pve

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

const uploadPath = "/nodes/{node}/storage/{storage}/upload"

// snippetLimit bounds what is kept of a snippet's file.
const snippetLimit = 1 << 20

func (s *Server) storageDigest() string {
	v := vm{Config: vmConfig{}}
	for id, st := range s.state.Storages {
		v.Config[id] = strings.Join(st.Content, ",")
	}
	return v.digest()
}

func (s *Server) storageJSON(st *storage) map[string]any {
	out := map[string]any{
		"storage": st.ID, "type": st.Type, "content": strings.Join(st.Content, ","), "digest": s.storageDigest(),
	}
	if st.Path != "" {
		out["path"] = st.Path
	}
	for k, v := range st.Options {
		if k != "keyring" {
			out[k] = v
		}
	}
	if st.Shared {
		out["shared"] = 1
	}
	if len(st.Nodes) > 0 {
		out["nodes"] = strings.Join(st.Nodes, ",")
	}
	return out
}

func storageList(s *Server, c *call) (any, error) {
	rows := []map[string]any{}
	for _, id := range sortedKeys(s.state.Storages) {
		st := s.state.Storages[id]
		if s.can(c.who, "/storage/"+id, true, "Datastore.Audit", "Datastore.AllocateSpace") &&
			(c.get("type") == "" || c.get("type") == st.Type) {
			rows = append(rows, s.storageJSON(st))
		}
	}
	return rows, nil
}

func (s *Server) storage(id string) (*storage, error) {
	if st := s.state.Storages[id]; st != nil {
		return st, nil
	}
	return nil, failf("storage '%s' does not exist", id)
}

func storageGet(s *Server, c *call) (any, error) {
	st, err := s.storage(c.get("storage"))
	if err != nil {
		return nil, err
	}
	return s.storageJSON(st), nil
}

func storageCreate(s *Server, c *call) (any, error) {
	st, err := newStorage(c)
	if err != nil {
		return nil, err
	}
	id := c.get("storage")
	if s.state.Storages[id] != nil {
		return nil, failf("create storage failed: storage ID '%s' already defined", id)
	}
	st.Capacity = s.state.Storages["local"].Capacity
	s.state.Storages[id] = st
	return map[string]any{"storage": id, "type": st.Type}, nil
}

func storageUpdate(s *Server, c *call) (any, error) {
	st := s.state.Storages[c.get("storage")]
	if st == nil {
		return nil, failf("update storage failed: storage '%s' does not exist", c.get("storage"))
	}
	if c.has("content") {
		content, err := st.kind().askedContent(c)
		if err != nil {
			return nil, failf("update storage failed: %v", err)
		}
		st.Content = content
	}
	if c.has("nodes") {
		st.Nodes = splitList(c.get("nodes"))
	}
	return map[string]any{"storage": st.ID, "type": st.Type}, nil
}

func storageDelete(s *Server, c *call) (any, error) {
	id := c.get("storage")
	if s.state.Storages[id] == nil {
		return nil, failf("delete storage failed: storage '%s' does not exist", id)
	}
	delete(s.state.Storages, id)
	return nil, nil
}

// usage is a storage as a hypervisor sees it.
func (s *Server) usage(node string, st *storage) map[string]any {
	return map[string]any{
		"type": st.Type, "content": strings.Join(st.Content, ","), "active": 1, "enabled": 1, "shared": btoi(st.Shared),
		"total": st.Capacity, "used": s.state.used(node, st.ID), "avail": max(s.free(node, st), 0),
	}
}

func nodeStorages(s *Server, c *call) (any, error) {
	rows := []map[string]any{}
	for _, id := range sortedKeys(s.state.Storages) {
		st := s.state.Storages[id]
		if !s.can(c.who, "/storage/"+id, true, "Datastore.Audit", "Datastore.AllocateSpace") ||
			(c.has("storage") && c.get("storage") != id) || !holdsAny(st, splitList(c.get("content"))) || st.on(c.node) != nil {
			continue
		}
		row := s.usage(c.node, st)
		row["storage"] = id
		row["used_fraction"] = float64(s.state.used(c.node, id)) / float64(st.Capacity)
		rows = append(rows, row)
	}
	return rows, nil
}

func holdsAny(st *storage, content []string) bool {
	for _, t := range content {
		if st.holds(t) {
			return true
		}
	}
	return len(content) == 0
}

func nodeStorageIndex(*Server, *call) (any, error) {
	var out []map[string]any
	for _, n := range []string{"content", "download-url", "status", "upload"} {
		out = append(out, map[string]any{"subdir": n})
	}
	return out, nil
}

func storageStatus(s *Server, c *call) (any, error) {
	st := s.state.Storages[c.get("storage")]
	if st == nil {
		return nil, badParam("storage", "No such storage.")
	}
	return s.usage(c.node, st), nil
}

// listFormat is the format that a listing shows.
func (v *volume) listFormat() string {
	switch v.Content {
	case "iso":
		return "iso"
	case "snippets":
		return "snippet"
	case "vztmpl":
		return "t" + strings.TrimPrefix(path.Ext(v.Name), ".")
	}
	return v.Format
}

func contentList(s *Server, c *call) (any, error) {
	st, err := s.storage(c.get("storage"))
	if err == nil {
		err = st.on(c.node)
	}
	if err != nil {
		return nil, err
	}
	rows := []map[string]any{}
	for _, v := range s.state.Volumes {
		switch {
		case v.Storage != st.ID, v.Node != "" && v.Node != c.node,
			!st.holds(v.Content),
			c.has("content") && c.get("content") != v.Content,
			c.has("vmid") && v.Content == "images" && v.VMID != c.int("vmid", 0),
			!s.visible(c, v):
			continue
		}
		row := map[string]any{
			"volid": v.id(), "content": v.Content, "format": v.listFormat(), "size": v.Size, "ctime": v.CTime,
		}
		if v.Content == "images" {
			row["vmid"], row["used"], row["parent"] = v.VMID, v.Used, nil
			if v.Parent != "" {
				row["parent"] = v.Parent
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// visible tells whether a listing shows a volume: snippets take Datastore.Allocate, a VM's images its VM.Audit or that.
func (s *Server) visible(c *call, v *volume) bool {
	if s.can(c.who, "/storage/"+v.Storage, false, "Datastore.Allocate") {
		return true
	}
	switch v.Content {
	case "snippets":
		return false
	case "images":
		return s.can(c.who, fmt.Sprintf("/vms/%d", v.VMID), false, "VM.Audit")
	}
	return true
}

// volumeName resolves {volume}, which may carry its storage or not.
func (s *Server) volumeName(c *call) (*storage, string, error) {
	st, err := s.storage(c.get("storage"))
	if err == nil {
		err = st.on(c.node)
	}
	if err != nil {
		return nil, "", err
	}
	name := c.get("volume")
	if id, rest, ok := strings.Cut(name, ":"); ok {
		if id != st.ID {
			return nil, "", badParam("volume", "storage ID mismatch (%s != %s)\n", id, st.ID)
		}
		name = rest
	}
	_, _, err = st.parse(name)
	return st, name, err
}

func volumeInfo(s *Server, c *call) (any, error) {
	st, name, err := s.volumeName(c)
	if err != nil {
		return nil, err
	}
	v := s.state.volume(c.node, st.ID+":"+name)
	if v == nil {
		return nil, failf("volume_size_info on '%s:%s' failed - no format", st.ID, name)
	}
	if !s.visible(c, v) {
		return nil, forbidden("/storage/"+st.ID, "Datastore.Allocate")
	}
	format := v.Format
	if v.Content != "images" && v.Content != "import" {
		format = "raw"
	}
	return map[string]any{"path": s.filePath(v), "size": v.virtualSize(), "used": v.Used, "format": format}, nil
}

func volumeDelete(s *Server, c *call) (any, error) {
	st, name, err := s.volumeName(c)
	if err != nil {
		return nil, err
	}
	content, vmid, err := st.parse(name)
	if err != nil {
		return nil, err
	}
	need := "Datastore.Allocate"
	if content == "images" {
		need = "Datastore.AllocateSpace"
	}
	if err := s.need(c.who, "/storage/"+st.ID, need); err != nil {
		return nil, err
	}
	id := "@" + st.ID
	if vmid != 0 {
		id = fmt.Sprintf("%d@%s", vmid, st.ID)
	}
	return s.startTask(c.who, c.node, "imgdel", id, c, func(t *task) error {
		if err := t.work(); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.removeNamed(t, c.node, st, name)
	}), nil
}

func (s *Server) removeNamed(t *task, node string, st *storage, name string) error {
	v := s.state.volume(node, st.ID+":"+name)
	if v == nil {
		// A missing file is no failure (observed).
		t.addLog("disk image '"+dirPath(st, name)+"' does not exist", "Removed volume '"+st.ID+":"+name+"'")
		return nil
	}
	for _, o := range s.state.Volumes {
		if o.Parent == v.Name && o.Storage == v.Storage && o.Node == v.Node {
			return failf("base volume '%s' is still in use by linked clones", v.Name)
		}
	}
	s.state.removeVolume(v)
	t.addLog("Removed volume '" + v.id() + "'")
	s.changed()
	return nil
}

// volumeAllocate is POST …/content: a disk without a VM's option.
func volumeAllocate(s *Server, c *call) (any, error) {
	st, err := s.storage(c.get("storage"))
	if err != nil {
		return nil, err
	}
	name, format, err := newImage(st, c)
	if err != nil {
		return nil, err
	}
	if s.state.volume(c.node, st.ID+":"+name) != nil {
		return nil, failf("disk image '%s' already exists", dirPath(st, name))
	}
	size := c.get("size")
	if digitsPattern.MatchString(size) {
		size += "K"
	}
	v := &volume{
		Node: st.place(c.node), Storage: st.ID, Name: name, Content: "images", Format: format,
		Size: parseSize(size), VMID: c.int("vmid", 0), CTime: time.Now().Unix(), Blank: true,
	}
	if err := s.room(c.node, st, v); err != nil {
		return nil, failf("%s", err)
	}
	s.state.Volumes = append(s.state.Volumes, v)
	return v.id(), nil
}

// newImage is the name and the format of a disk that POST …/content asks for by name.
func newImage(st *storage, c *call) (name, format string, err error) {
	name = c.get("filename")
	if !st.block() {
		m := imageNamePattern.FindStringSubmatch(name)
		if m == nil {
			return "", "", failf("unable to parse volume filename '%s'", name)
		}
		return c.get("vmid") + "/" + name, m[2], nil
	}
	if !strings.HasPrefix(name, "vm-"+c.get("vmid")+"-") {
		return "", "", failf("illegal name '%s' - should be 'vm-%s-*'", name, c.get("vmid"))
	}
	format, err = st.format(c.get("format"))
	return name, format, err
}

// upload reads multipart fields in the only order that PVE accepts: content, checksum-algorithm, checksum, filename.
func (s *Server) upload(c *call) (any, error) {
	form, err := readUpload(c.req)
	if err != nil {
		return nil, err
	}
	for k, v := range form.fields {
		c.params[k] = value{text: v, list: []string{v}}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if errs := validateParams(s.table[uploadPath][http.MethodPost].props, c.params); len(errs) > 0 {
		return nil, &apiError{status: 400, message: msgParams, errs: errs}
	}
	st, err := s.storage(c.get("storage"))
	if err != nil {
		return nil, err
	}
	content := c.get("content")
	if st.block() {
		return nil, failf("can't upload to storage type '%s'", st.Type)
	}
	if !st.holds(content) {
		return nil, failf("storage '%s' does not support '%s' content", st.ID, content)
	}
	name := path.Base(form.file)
	if !extensionFits(content, name) {
		return nil, badParam("filename", "wrong file extension")
	}
	tmp := "/var/tmp/pveupload-" + randomHex(16)
	return s.startTask(c.who, c.node, "imgcopy", "", c, func(t *task) error {
		if err := t.work(); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.keepUpload(t, c.node, st, content, name, tmp, form)
	}), nil
}

type uploadForm struct {
	fields map[string]string
	file   string
	size   int64
	head   []byte // the file's first bytes
}

func readUpload(r *request) (*uploadForm, error) {
	bad := &apiError{status: 400, message: "Bad Request", bare: true}
	_, params, err := mime.ParseMediaType(r.ctype)
	if err != nil || params["boundary"] == "" {
		return nil, bad
	}
	order := []string{"content", "checksum-algorithm", "checksum", "filename"}
	form := &uploadForm{fields: map[string]string{}}
	mr := multipart.NewReader(r.body, params["boundary"])
	last := -1
	for {
		part, err := mr.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, bad
		}
		i := slices.Index(order, part.FormName())
		if i <= last {
			return nil, bad
		}
		last = i
		if order[i] != "filename" {
			b, _ := io.ReadAll(io.LimitReader(part, 4*kib))
			form.fields[order[i]] = string(b)
			continue
		}
		form.file = part.FileName()
		form.fields["filename"] = form.file
		head := &bytes.Buffer{}
		n, err := io.CopyN(head, part, 64)
		if err == nil {
			var rest int64
			rest, err = io.Copy(io.Discard, part)
			n += rest
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, bad
		}
		form.size, form.head = n, head.Bytes()
	}
	if form.file == "" {
		return nil, bad
	}
	return form, nil
}

func extensionFits(content, name string) bool {
	switch content {
	case "iso":
		return isoNamePattern.MatchString(name)
	case "vztmpl":
		return templateNamePattern.MatchString(name)
	case "import":
		return importNamePattern.MatchString(name)
	}
	return false
}

func (s *Server) keepUpload(t *task, node string, st *storage, content, name, tmp string, form *uploadForm) error {
	t.addLog("starting file import from: " + tmp)
	v := &volume{
		Node: st.place(node), Storage: st.ID, Name: content + "/" + name, Content: content, CTime: time.Now().Unix(),
		Size: form.size, Used: form.size, Format: strings.TrimPrefix(path.Ext(name), "."),
	}
	if content == "import" && v.Format == "qcow2" {
		size, ok := qcow2Size(form.head)
		if !ok {
			t.addLog("command '/usr/bin/qemu-img info '--output=json' " + tmp + " -f qcow2' failed: exit code 1")
			return failf("qemu-img: Could not open '%s': Image is not in qcow2 format", tmp)
		}
		v.Size = size
	}
	if s.free(node, st) < form.size {
		return failf("cp: error writing '%s': No space left on device", dirPath(st, v.Name))
	}
	if old := s.state.volume(node, v.id()); old != nil {
		s.state.removeVolume(old) // an existing file is overwritten silently (observed)
	}
	s.state.Volumes = append(s.state.Volumes, v)
	t.addLog("target node: "+node, "target file: "+dirPath(st, v.Name), fmt.Sprintf("file size is: %d", form.size),
		"command: cp -- "+tmp+" "+dirPath(st, v.Name), "finished file import successfully")
	s.changed()
	return nil
}

// qcow2Size reads the virtual size from an image's header.
func qcow2Size(head []byte) (int64, bool) {
	if len(head) < 32 || string(head[:4]) != "QFI\xfb" {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(head[24:32])), true
}

// downloadURL refuses in the task: the simulator reaches no other machine.
func downloadURL(s *Server, c *call) (any, error) {
	st, err := s.storage(c.get("storage"))
	if err != nil {
		return nil, err
	}
	if st.block() {
		return nil, failf("can't upload to storage type '%s', not a file based storage!", st.Type)
	}
	if !st.holds(c.get("content")) {
		return nil, failf("storage '%s' does not support '%s' content", st.ID, c.get("content"))
	}
	name, url := c.get("filename"), c.get("url")
	if !extensionFits(c.get("content"), name) {
		return nil, badParam("filename", "invalid filename or wrong extension")
	}
	return s.startTask(c.who, c.node, "download", name, c, func(t *task) error {
		t.logf("downloading %s to %s", url, dirPath(st, c.get("content")+"/"+name))
		if err := t.work(); err != nil {
			return err
		}
		return failf("download failed: the simulated hypervisor has no network: upload the file instead")
	}), nil
}

func urlMetadata(_ *Server, c *call) (any, error) {
	return nil, failf(
		"invalid server response: '500 Can't connect to %s (the simulated hypervisor has no network)'",
		c.get("url"),
	)
}
