package pve

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pkg/sftp"
)

// writeSnippet stores a file in a snippet directory. The storage need not have the content type: the file then lies
// there, and no listing shows it.
func (s *Server) writeSnippet(node, file string, b []byte, root bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, name, ok := s.snippetFile(file)
	if !ok {
		return syscall.ENOENT
	}
	if !root {
		return syscall.EACCES
	}
	v := s.state.volume(node, id+":"+name)
	if v == nil {
		v = &volume{
			Node: s.state.Storages[id].place(node), Storage: id, Name: name, Content: "snippets", Format: "snippet",
		}
		s.state.Volumes = append(s.state.Volumes, v)
	}
	v.Data, v.Size, v.Used, v.CTime = b, int64(len(b)), int64(len(b)), time.Now().Unix()
	s.changed()
	return nil
}

// sftpHandlers serves the snippet directories of a hypervisor, nothing else.
func (s *Server) sftpHandlers(node string) func(string) (sftp.Handlers, error) {
	return func(user string) (sftp.Handlers, error) {
		s.touch()
		f := &snippetFS{s: s, node: node, root: user == "root"}
		return sftp.Handlers{FileGet: f, FilePut: f, FileCmd: f, FileList: f}, nil
	}
}

type snippetFS struct {
	s    *Server
	node string
	root bool
}

func (f *snippetFS) find(file string) *volume {
	id, name, ok := f.s.snippetFile(file)
	if !ok {
		return nil
	}
	return f.s.state.volume(f.node, id+":"+name)
}

// Fileread opens a snippet.
func (f *snippetFS) Fileread(r *sftp.Request) (io.ReaderAt, error) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	v := f.find(r.Filepath)
	if v == nil {
		return nil, os.ErrNotExist
	}
	return bytes.NewReader(bytes.Clone(v.Data)), nil
}

// Filewrite takes a snippet in; it is stored when the client closes it.
func (f *snippetFS) Filewrite(r *sftp.Request) (io.WriterAt, error) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if _, _, ok := f.s.snippetFile(r.Filepath); !ok {
		return nil, os.ErrNotExist
	}
	if !f.root {
		return nil, os.ErrPermission
	}
	return &snippetWriter{fs: f, file: r.Filepath}, nil
}

type snippetWriter struct {
	mu   sync.Mutex
	fs   *snippetFS
	file string
	data []byte
}

func (w *snippetWriter) WriteAt(p []byte, off int64) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	end := off + int64(len(p))
	if end > snippetLimit {
		return 0, syscall.EFBIG
	}
	if end > int64(len(w.data)) {
		w.data = append(w.data, make([]byte, end-int64(len(w.data)))...)
	}
	return copy(w.data[off:], p), nil
}

// Close stores what was written.
func (w *snippetWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fs.s.writeSnippet(w.fs.node, w.file, w.data, w.fs.root)
}

// Filecmd accepts changed modes and removes snippets.
func (f *snippetFS) Filecmd(r *sftp.Request) error {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	v := f.find(r.Filepath)
	switch {
	case r.Method == "Mkdir" || r.Method == "Rename":
		return os.ErrPermission
	case v == nil:
		return os.ErrNotExist
	case !f.root:
		return os.ErrPermission
	case r.Method == "Remove":
		f.s.state.removeVolume(v)
		f.s.changed()
		return nil
	case r.Method == "Setstat":
		return nil
	}
	return sftp.ErrSSHFxOpUnsupported
}

// Filelist describes a snippet or lists a snippet directory.
func (f *snippetFS) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	switch r.Method {
	case "Stat":
		if v := f.find(r.Filepath); v != nil {
			return infos{snippetInfo(v)}, nil
		}
		if f.isDir(r.Filepath) {
			return infos{{name: path.Base(r.Filepath), dir: true}}, nil
		}
		return nil, os.ErrNotExist
	case "List":
		if !f.isDir(r.Filepath) {
			return nil, os.ErrNotExist
		}
		var out infos
		for _, v := range f.s.state.Volumes {
			if (v.Node == f.node || v.Node == "") && f.s.filePath(v) == path.Join(r.Filepath, path.Base(v.Name)) {
				out = append(out, snippetInfo(v))
			}
		}
		return out, nil
	}
	return nil, sftp.ErrSSHFxOpUnsupported
}

func (f *snippetFS) isDir(file string) bool {
	file = path.Clean(file)
	for _, st := range f.s.state.Storages {
		dir := path.Join(st.Path, "snippets")
		if st.Path != "" && (file == dir || file == "/" || strings.HasPrefix(dir, file+"/")) {
			return true
		}
	}
	return false
}

func snippetInfo(v *volume) fileInfo {
	return fileInfo{name: path.Base(v.Name), size: int64(len(v.Data)), time: time.Unix(v.CTime, 0)}
}

// infos is a listing.
type infos []fileInfo

// ListAt copies entries from an offset.
func (l infos) ListAt(into []fs.FileInfo, offset int64) (int, error) {
	if offset >= int64(len(l)) {
		return 0, io.EOF
	}
	n := 0
	for _, i := range l[offset:] {
		if n == len(into) {
			return n, nil
		}
		into[n] = i
		n++
	}
	return n, io.EOF
}

type fileInfo struct {
	name string
	size int64
	time time.Time
	dir  bool
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return i.size }
func (i fileInfo) ModTime() time.Time { return i.time }
func (i fileInfo) IsDir() bool        { return i.dir }
func (i fileInfo) Sys() any           { return nil }
func (i fileInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
