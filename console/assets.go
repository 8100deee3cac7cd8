package console

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed assets/*
var assetFiles embed.FS

// assets are the files that pages load. A name contains the digest of its file, so browsers may keep the file for ever.
var assets, assetNames = loadAssets()

func loadAssets() (files map[string][]byte, names map[string]string) {
	files, names = map[string][]byte{}, map[string]string{}
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err) // the directory is embedded
	}
	for _, entry := range entries {
		content, err := assetFiles.ReadFile("assets/" + entry.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(content)
		base, extension, _ := strings.Cut(entry.Name(), ".")
		name := base + "." + base64.RawURLEncoding.EncodeToString(sum[:9]) + "." + extension
		files[name], names[entry.Name()] = content, name
	}
	return files, names
}

func serveAsset(w http.ResponseWriter, r *http.Request) {
	content, ok := assets[r.PathValue("file")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(r.PathValue("file"))))
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(content) // the write fails only if the browser is gone
}
