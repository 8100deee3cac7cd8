package api

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"sync"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/swaggest/swgui/v5emb"
	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var specYAML []byte

// specJSON converts the specification from YAML to JSON, at the first call. Fields keep their order, so that examples look as
// documented.
var specJSON = sync.OnceValues(func() ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(specYAML, &document); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	var out bytes.Buffer
	if err := writeJSON(&out, document.Content[0]); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	return out.Bytes(), nil
})

func writeJSON(out *bytes.Buffer, node *yaml.Node) error {
	switch node.Kind {
	case yaml.MappingNode:
		out.WriteByte('{')
		for i := 0; i < len(node.Content); i += 2 {
			if i > 0 {
				out.WriteByte(',')
			}
			name, _ := json.Marshal(node.Content[i].Value) // strings always encode
			out.Write(name)
			out.WriteByte(':')
			if err := writeJSON(out, node.Content[i+1]); err != nil {
				return err
			}
		}
		out.WriteByte('}')
		return nil
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, item := range node.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := writeJSON(out, item); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	case yaml.AliasNode:
		return writeJSON(out, node.Alias)
	default:
		return writeScalar(out, node)
	}
}

func writeScalar(out *bytes.Buffer, node *yaml.Node) error {
	var value any = node.Value
	switch node.Tag {
	case "!!null", "!!bool", "!!int", "!!float":
		if err := node.Decode(&value); err != nil {
			return fmt.Errorf("line %d: %w", node.Line, err)
		}
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("line %d: %w", node.Line, err)
	}
	out.Write(encoded)
	return nil
}

func (s *Server) openapi(c *fiber.Ctx) error {
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Status(http.StatusOK).Send(s.spec)
}

//go:embed docs/index.html
var docsPage string

var docsTemplate = template.Must(template.New("docs").Parse(docsPage))

//go:embed docs/page.js docs/page.css
var docsFiles embed.FS

// docsPolicy allows the page to load only files of this server, and forbids inline scripts and styles.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// docsHandler serves the specification with Swagger UI, whose files are embedded. The page needs no other host, and its
// Content-Security-Policy allows no other host. Its links are relative, since a proxy may serve the page below a path.
func (s *Server) docsHandler() fiber.Handler {
	ui := adaptor.HTTPHandler(v5emb.New("", "", "/docs/"))
	own := adaptor.HTTPHandler(http.FileServerFS(docsFiles))
	page := s.docsPage()
	return func(c *fiber.Ctx) error {
		c.Set(fiber.HeaderContentSecurityPolicy, docsPolicy)
		switch c.Path() {
		case "/docs":
			c.Set(fiber.HeaderContentType, fiber.MIMETextHTMLCharsetUTF8)
			return c.Status(http.StatusOK).Send(page)
		case "/docs/":
			c.Set(fiber.HeaderLocation, "../docs")
			return c.SendStatus(http.StatusPermanentRedirect)
		case "/docs/page.js", "/docs/page.css":
			return own(c)
		default:
			return ui(c)
		}
	}
}

// docsPage is the page with the API reference. It links to the pages of the console if there is a console.
func (s *Server) docsPage() []byte {
	var out bytes.Buffer
	if err := docsTemplate.Execute(&out, s.options.Console); err != nil {
		panic(err) // the template is embedded, and a test executes it
	}
	return out.Bytes()
}
