package config

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Layer is what the settings say of a layer of templates: a built-in one is added to, any other is made of it.
type Layer struct {
	Name      string
	On        string // the layer below; empty: the image
	Packages  []string
	Downloads []Download
	Files     []LayerFile
	Scripts   []string // paths
	Hive      bool
}

// Download is a file from elsewhere, by its URL or a path on this machine, with what it must be.
type Download struct{ URL, File, SHA256 string }

// Name is that of the file.
func (d Download) Name() string {
	if d.File != "" {
		return filepath.Base(d.File)
	}
	parsed, err := url.Parse(d.URL)
	if err != nil {
		return ""
	}
	return path.Base(parsed.Path)
}

// LayerFile is a file or directory of this machine, and where it goes.
type LayerFile struct{ From, To string }

var (
	layerName    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)
	downloadName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)
	sha256Sum    = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// layers reads a mapping of names to layers.
func (r *fileReader) layers(key string, node *yaml.Node) []Layer {
	if node.Kind != yaml.MappingNode {
		r.problem(node.Line, "%s: it must be a mapping of names to layers, not %s", key, describeNode(node))
		return nil
	}
	var list []Layer
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, line := node.Content[i].Value, node.Content[i].Line
		switch {
		case !layerName.MatchString(name):
			r.problem(line, "%s: %q is no name of a layer: lower-case letters, digits and hyphens", key, name)
		case slices.ContainsFunc(list, func(l Layer) bool { return l.Name == name }):
			r.problem(line, "%s: %s is there twice", key, name)
		default:
			list = append(list, r.layer(key+"."+name, name, node.Content[i+1]))
		}
	}
	return list
}

func (r *fileReader) layer(key, name string, node *yaml.Node) Layer {
	one := &fileReader{path: r.path, base: r.base, home: r.home, values: map[string]fileValue{}, table: []Setting{
		{Key: "on", Kind: Text},
		{Key: "packages", Kind: List},
		{Key: "downloads", Kind: downloadList},
		{Key: "files", Kind: layerFiles},
		{Key: "scripts", Kind: List},
		{Key: "hive", Kind: Bool},
	}}
	one.mapping("", node)
	r.problems = append(r.problems, one.problems...)
	layer := Layer{
		Name: name, On: valueOf[string](one, "on"), Packages: valueOf[[]string](one, "packages"),
		Downloads: valueOf[[]Download](one, "downloads"), Files: valueOf[[]LayerFile](one, "files"),
		Scripts: slices.Clone(valueOf[[]string](one, "scripts")), Hive: valueOf[bool](one, "hive"),
	}
	for i, script := range layer.Scripts {
		layer.Scripts[i] = r.resolve(script)
	}
	if layer.On != "" && !layerName.MatchString(layer.On) {
		r.problem(node.Line, "%s.on: %q is no name of a layer", key, layer.On)
	}
	return layer
}

// The lists within a layer.
const (
	downloadList Kind = "downloads"
	layerFiles   Kind = "files"
)

// downloads reads a list of mappings, each with url or file, and sha256.
func (r *fileReader) downloads(key string, node *yaml.Node) []Download {
	var list []Download
	for _, item := range r.items(key, node, "downloads, each with url or file, and sha256") {
		one := r.below([]Setting{{Key: "url", Kind: Text}, {Key: "file", Kind: Text}, {Key: "sha256", Kind: Word}}, item)
		d := Download{
			valueOf[string](one, "url"), r.resolve(valueOf[string](one, "file")),
			strings.ToLower(valueOf[string](one, "sha256")),
		}
		if err := d.check(); err != nil && len(one.problems) == 0 {
			r.problem(item.Line, "%s: %w", key, err)
			continue
		}
		list = append(list, d)
	}
	return list
}

func (d Download) check() error {
	switch parsed, err := url.Parse(d.URL); {
	case (d.URL == "") == (d.File == ""):
		return fmt.Errorf("it needs either url or file")
	case d.URL != "" && (err != nil || !slices.Contains([]string{"http", "https"}, parsed.Scheme) || parsed.Host == ""):
		return fmt.Errorf("%q is no URL of http or https", d.URL)
	case parsed.User != nil:
		return fmt.Errorf("the URL of %s has a user: it is shown in reports; use file, or a mirror that needs none", d.Name())
	case !downloadName.MatchString(d.Name()):
		return fmt.Errorf("%q is no name of a file: letters, digits, dots, hyphens, + and _", d.Name())
	case !sha256Sum.MatchString(d.SHA256):
		return fmt.Errorf("%s needs its sha256, 64 hexadecimal digits: what is downloaded is compared with it", d.Name())
	}
	return nil
}

// layerFiles reads a list of mappings, each with from and to.
func (r *fileReader) layerFiles(key string, node *yaml.Node) []LayerFile {
	var list []LayerFile
	for _, item := range r.items(key, node, "files, each with from and to") {
		one := r.below([]Setting{{Key: "from", Kind: Text}, {Key: "to", Kind: Text}}, item)
		f := LayerFile{r.resolve(valueOf[string](one, "from")), valueOf[string](one, "to")}
		if len(one.problems) == 0 && (f.From == "" || f.To == "") {
			r.problem(item.Line, "%s: a file needs from, a path on this machine, and to, one on the node", key)
			continue
		}
		list = append(list, f)
	}
	return list
}

// items returns what a list has.
func (r *fileReader) items(key string, node *yaml.Node, what string) []*yaml.Node {
	if node.Kind != yaml.SequenceNode {
		r.problem(node.Line, "%s: it must be a list of %s, not %s", key, what, describeNode(node))
		return nil
	}
	return node.Content
}
