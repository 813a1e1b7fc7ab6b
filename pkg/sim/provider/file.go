package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-sdk/v2/diag"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/validation"
)

// fileResource declares proxmox_virtual_environment_file.
func fileResource() *schema.Resource {
	return &schema.Resource{
		Schema: fields{
			"content_type":           text(computed, forceNew, oneOf("backup", "iso", "snippets", "vztmpl", "import")),
			"datastore_id":           text(required, forceNew),
			"node_name":              text(required, forceNew),
			"file_name":              text(readOnly),
			"file_mode":              text(forceNew, matching(`^\d+$`, "must be an octal file mode")),
			"file_modification_date": text(readOnly, forceNew),
			"file_size":              number(readOnly, forceNew),
			"file_tag":               text(readOnly, forceNew),
			"overwrite":              flag(byDefault(true)),
			"timeout_upload":         number(byDefault(1800)),
			"upload_mode":            text(byDefault("stream"), oneOf("sftp", "stream")),
			"source_file": blocks(1, fields{
				"path":      text(required, forceNew),
				"changed":   flag(forceNew, byDefault(false)),
				"checksum":  text(forceNew, byDefault("")),
				"file_name": text(forceNew, byDefault("")),
				"insecure":  flag(forceNew, byDefault(false)),
				"min_tls":   text(forceNew, byDefault("")),
			}, forceNew),
			"source_raw": blocks(1, fields{
				"data":      text(required, forceNew),
				"file_name": text(required, forceNew),
				"resize":    number(forceNew, byDefault(0), check(validation.IntAtLeast(0))),
			}, forceNew),
		},
		CreateContext: fileCreate,
		ReadContext:   fileRead,
		// Only settings of the provider itself change in place.
		UpdateContext: func(context.Context, *schema.ResourceData, any) diag.Diagnostics { return nil },
		DeleteContext: fileDelete,
		Importer:      &schema.ResourceImporter{StateContext: fileImport},
	}
}

func fileCreate(ctx context.Context, rd *schema.ResourceData, meta any) diag.Diagnostics {
	d, c := wrap(rd), meta.(*clients)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(d.num("timeout_upload"))*time.Second)
	defer cancel()
	name, err := fileName(d)
	if err != nil {
		return diag.FromErr(err)
	}
	kind, err := contentType(ctx, d, c.api)
	if err != nil {
		return diag.FromErr(err)
	}
	node, datastore := d.text("node_name"), d.text("datastore_id")
	files, err := c.api.files(ctx, node, datastore, kind)
	if err != nil {
		return diag.FromErr(err)
	}
	for _, f := range files {
		if _, n, ok := strings.Cut(f.VolID, "/"); ok && n == name && !d.flag("overwrite") {
			return diag.Errorf("file %q already exists", f.VolID)
		}
	}
	content, err := fileContent(d)
	if err != nil {
		return diag.FromErr(err)
	}
	if err := sendFile(ctx, d, c, kind, name, content); err != nil {
		return diag.FromErr(err)
	}
	// The real provider asks for the version again here.
	if _, err := contentType(ctx, d, c.api); err != nil {
		return diag.FromErr(err)
	}
	volume := fmt.Sprintf("%s:%s/%s", datastore, kind, name)
	d.SetId(volume)
	return awaitListed(ctx, d, c, volume)
}

// awaitListed reads the file up to five times. As in the real provider the
// repeats are in vain: the first miss clears the id that is looked for.
func awaitListed(ctx context.Context, d data, c *clients, volume string) (ds diag.Diagnostics) {
	policy := retryPolicy{attempts: 5, delay: backoff(200 * time.Millisecond), lastOnly: true}
	err := policy.do(ctx, func() error {
		ds = fileRead(ctx, d.ResourceData, c)
		if !ds.HasError() && d.Id() == "" {
			return errMissing
		}
		return nil
	})
	if err != nil {
		return append(ds, diag.Errorf("failed to read file from %q", volume)...)
	}
	return ds
}

// sendFile writes the file to its storage's directory on the hypervisor.
func sendFile(ctx context.Context, d data, c *clients, kind, name string, content []byte) error {
	switch kind {
	case "iso", "vztmpl", "import":
		return fmt.Errorf(
			"uploading content of type %q is beyond this double of the provider, which uploads snippets only", kind,
		)
	case "backup":
		kind = "dump"
	}
	datastore := d.text("datastore_id")
	var answer struct{ Data *struct{ Path string } }
	if err := c.api.do(ctx, http.MethodGet, "storage/"+url.PathEscape(datastore), nil, &answer); err != nil {
		return fmt.Errorf("failed to get datastore: error reading datastore: %w", err)
	}
	if answer.Data == nil || answer.Data.Path == "" {
		return errors.New("failed to determine the datastore path")
	}
	send := c.shell.upload
	if d.text("upload_mode") == "sftp" {
		send = c.shell.put
	}
	return send(
		ctx, d.text("node_name"), path.Join(answer.Data.Path, kind), name, bytes.NewReader(content),
		int64(len(content)),
	)
}

func fileContent(d data) ([]byte, error) {
	raw, isRaw := d.first("source_raw")
	file, isFile := d.first("source_file")
	switch {
	case isRaw && isFile:
		return nil, errors.New(`please specify "source_file.path" or "source_raw" - not both`)
	case isFile && isURL(file.text("path")):
		return nil,
			errors.New("downloading the source of a file is beyond this double of the provider: give a local path")
	case isFile:
		return os.ReadFile(file.text("path"))
	}
	content := raw.text("data")
	if size := raw.num("resize"); size > 0 {
		if len(content) > size {
			return nil, fmt.Errorf("cannot resize %d bytes to %d bytes", len(content), size)
		}
		content += strings.Repeat(" ", size-len(content))
	}
	return []byte(content), nil
}

func isURL(s string) bool {
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}

func fileName(d data) (string, error) {
	if b, ok := d.first("source_file"); ok {
		if n := b.text("file_name"); n != "" {
			return n, nil
		}
		return filepath.Base(b.text("path")), nil
	}
	if b, ok := d.first("source_raw"); ok {
		return b.text("file_name"), nil
	}
	return "", errors.New(`missing argument "source_file.path"`)
}

// contentType is the written type or the one that the name tells. It asks for
// PVE's version in any case; a failure of that is no failure of the file.
func contentType(ctx context.Context, d data, a *api) (string, error) {
	_ = a.do(ctx, http.MethodGet, "version", nil, nil)
	if kind := d.text("content_type"); kind != "" {
		return kind, nil
	}
	name, err := fileName(d)
	if err != nil {
		return "", err
	}
	ext := strings.ToLower(filepath.Ext(name))
	switch {
	case strings.HasSuffix(name, ".tar.gz"), strings.HasSuffix(name, ".tar.xz"):
		return "vztmpl", nil
	case ext == ".qcow2", ext == ".raw", ext == ".vmdk":
		return "import", nil
	case ext == ".img", ext == ".iso":
		return "iso", nil
	case ext == ".yaml", ext == ".yml":
		return "snippets", nil
	}
	return "", fmt.Errorf(
		"cannot determine the content type of source %q - Please manually define the %q argument", name,
		"content_type",
	)
}

type storageFile struct {
	VolID   string `json:"volid"`
	Content string `json:"content"`
}

// patiently repeats calls about a storage's files for up to a minute; only a
// 403 and "does not exist" end it at once. A wrong token or a hypervisor that
// is down therefore takes about 52 s to be reported.
func patiently() retryPolicy {
	return retryPolicy{attempts: 10, delay: jittered, lastOnly: true, retryIf: func(err error) bool {
		he, ok := errors.AsType[*httpError](err)
		return !(ok && he.code == http.StatusForbidden) && !errors.Is(err, errMissing)
	}}
}

func (a *api) files(ctx context.Context, node, datastore, kind string) ([]storageFile, error) {
	params := url.Values{}
	if kind != "" {
		params.Set("content", kind)
	}
	var answer struct{ Data []storageFile }
	route := fmt.Sprintf("nodes/%s/storage/%s/content", url.PathEscape(node), url.PathEscape(datastore))
	err := patiently().do(ctx, func() error { return a.do(ctx, http.MethodGet, route, params, &answer) })
	if err != nil {
		return nil, fmt.Errorf("error listing files from datastore %s: %w", datastore, err)
	}
	if answer.Data == nil {
		return nil, errNoData
	}
	return answer.Data, nil
}

func fileRead(ctx context.Context, rd *schema.ResourceData, meta any) diag.Diagnostics {
	d, c := wrap(rd), meta.(*clients)
	files, err := c.api.files(ctx, d.text("node_name"), d.text("datastore_id"), d.text("content_type"))
	if err != nil {
		return diag.FromErr(err)
	}
	for _, f := range files {
		if f.VolID != d.Id() {
			continue
		}
		_, name, _ := strings.Cut(f.VolID, "/")
		values := map[string]any{"file_name": name, "content_type": f.Content}
		if b, ok := d.first("source_file"); ok {
			if err := readSource(d, b, values); err != nil {
				return diag.FromErr(err)
			}
		}
		return diag.FromErr(d.setAll(values))
	}
	d.SetId("")
	return nil
}

// readSource compares the local source with what was seen of it last time.
func readSource(d data, b block, values map[string]any) error {
	st, err := os.Stat(b.text("path"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("failed to stat the file: %w", err)
	}
	date := st.ModTime().UTC().Format(time.RFC3339)
	tag := fmt.Sprintf("%x-%x", st.ModTime().UTC().Unix(), st.Size())
	last := d.text("file_tag")
	values["file_modification_date"], values["file_size"], values["file_tag"] = date, int(st.Size()), tag
	b["changed"] = last != "" && last != tag
	values["source_file"] = []any{map[string]any(b)}
	return nil
}

func fileDelete(ctx context.Context, rd *schema.ResourceData, meta any) diag.Diagnostics {
	d, c := wrap(rd), meta.(*clients)
	datastore := d.text("datastore_id")
	route := fmt.Sprintf("nodes/%s/storage/%s/content/%s",
		url.PathEscape(d.text("node_name")), url.PathEscape(datastore), url.PathEscape(d.Id()))
	err := patiently().do(ctx, func() error { return c.api.do(ctx, http.MethodDelete, route, nil, nil) })
	if err != nil && !errors.Is(err, errMissing) {
		return diag.FromErr(fmt.Errorf("error deleting file %s from datastore %s: %w", d.Id(), datastore, err))
	}
	d.SetId("")
	return nil
}

func fileImport(_ context.Context, rd *schema.ResourceData, _ any) ([]*schema.ResourceData, error) {
	d := wrap(rd)
	node, volume, _ := strings.Cut(d.Id(), "/")
	datastore, rest, _ := strings.Cut(volume, ":")
	kind, name, _ := strings.Cut(rest, "/")
	if node == "" || datastore == "" || kind == "" || name == "" {
		return nil,
			fmt.Errorf("unexpected format of ID (%s), expected node/datastore_id:content_type/file_name", d.Id())
	}
	d.SetId(volume)
	err := d.setAll(map[string]any{"node_name": node, "datastore_id": datastore, "content_type": kind})
	return []*schema.ResourceData{rd}, err
}
