package report_test

import (
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"hive-test/pkg/report"
)

var takePictures = flag.Bool("pictures", false, "take the pictures of a report in docs/pictures anew, with Chromium")

const largest = 150_000 // bytes of a picture

// TestPictures looks at the pictures of a report in docs. -pictures takes them anew.
func TestPictures(t *testing.T) {
	docs := filepath.Join("..", "..", "docs", "pictures")
	for _, p := range []struct {
		name          string
		width, height int
		dark          bool
		shown         string // where
	}{
		{"report-light.png", 1100, 1180, false, "README.md"},
		{"report-dark.png", 1100, 1180, true, "docs/files.md"},
		{"report-narrow.png", 390, 1180, false, "docs/files.md"},
	} {
		path := filepath.Join(docs, p.name)
		if *takePictures {
			takePicture(t, path, p.width, p.height, p.dark)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(filepath.Join("..", "..", p.shown))
		if err != nil || !bytes.Contains(page, []byte("pictures/"+p.name+")")) {
			t.Errorf("%s does not show %s: %v", p.shown, p.name, err)
		}
		config, err := png.DecodeConfig(bytes.NewReader(raw))
		if err != nil || config.Width != p.width || config.Height != p.height || len(raw) > largest {
			t.Errorf("%s: %dx%d, %d bytes, %v: take it anew with -pictures", p.name, config.Width, config.Height, len(raw), err)
		}
	}
}

// takePicture has Chromium draw the report of a failed run in a frame of that size: its own windows are never narrow.
func takePicture(t *testing.T, path string, width, height int, dark bool) {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium on PATH: install Debian's package chromium")
	}
	dir := t.TempDir()
	frame := fmt.Sprintf(
		`<!DOCTYPE html><body style="margin:0"><iframe src="report.html" width="%d" height="%d" style="border:0">`,
		width, height,
	)
	for name, data := range map[string][]byte{
		"report.html": report.HTML(report.Build(failedRun(30))), "frame.html": []byte(frame),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	scheme := 1 // light
	if dark {
		scheme = 0
	}
	shot := filepath.Join(dir, "shot.png")
	out, err := exec.Command(
		chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir="+dir,
		fmt.Sprintf("--blink-settings=preferredColorScheme=%d", scheme),
		fmt.Sprintf("--window-size=%d,%d", max(width, 800), height+200), "--screenshot="+shot,
		"file://"+filepath.Join(dir, "frame.html"),
	).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	raw, err := os.ReadFile(shot)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, small(t, raw, image.Rect(0, 0, width, height)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// small returns a part of a picture with its most frequent colours, as many as a palette takes.
func small(t *testing.T, raw []byte, part image.Rectangle) []byte {
	t.Helper()
	whole, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	count := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(whole.At(x, y)).(color.RGBA) }
	for y := range part.Dy() {
		for x := range part.Dx() {
			count[at(x, y)]++
		}
	}
	var colors []color.RGBA
	for c := range count {
		colors = append(colors, c)
	}
	slices.SortFunc(colors, func(a, b color.RGBA) int {
		if d := count[b] - count[a]; d != 0 {
			return d
		}
		return bytes.Compare([]byte{a.R, a.G, a.B, a.A}, []byte{b.R, b.G, b.B, b.A})
	})
	var palette color.Palette
	for _, c := range colors[:min(200, len(colors))] {
		palette = append(palette, c)
	}
	picture := image.NewPaletted(part, palette)
	nearest := map[color.RGBA]uint8{}
	for y := range part.Dy() {
		for x := range part.Dx() {
			c := at(x, y)
			index, known := nearest[c]
			if !known {
				index = uint8(palette.Index(c))
				nearest[c] = index
			}
			picture.SetColorIndex(x, y, index)
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, picture); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
