package report

import (
	"bytes"
	_ "embed"
	"html/template"

	"hive-test/pkg/progress"
)

//go:embed report.html.tmpl
var htmlSource string

var htmlTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"clean":  progress.Clean,
	"status": func(s progress.Status) string { return string(s) },
	"mark":   mark,
	"time":   progress.FormatSeconds,
	"named":  named,
	"where":  Problem.where,
	"count":  countText,
}).Parse(htmlSource))

// HTML returns r as one HTML page that needs nothing else: no script, no network, light and dark.
func HTML(r Report) []byte {
	var b bytes.Buffer
	// The template is fixed and its functions do not fail, nor does a buffer.
	_ = htmlTemplate.Execute(&b, r)
	return b.Bytes()
}
