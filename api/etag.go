package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"

	"github.com/gofiber/fiber/v2"
)

// addETag gives a successful answer to GET or HEAD an ETag. If the caller already has the body, the answer becomes 304 without
// a body. An export has no ETag, because its body is a stream. addETag runs after the handler, so an answer of 304 has passed
// the same checks as an answer of 200. Strangers write dead letters, so the tag is a cryptographic hash: nobody can make two
// bodies with the same tag.
func addETag(c *fiber.Ctx) {
	response := c.Response()
	isRead := c.Method() == http.MethodGet || c.Method() == http.MethodHead
	if !isRead || response.StatusCode() != http.StatusOK || string(response.Header.ContentType()) == ndjson {
		return
	}
	sum := sha256.Sum256(response.Body())
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
	c.Set(fiber.HeaderETag, tag)
	if matchesTag(c.Request().Header.PeekAll(fiber.HeaderIfNoneMatch), tag) {
		response.ResetBody()
		response.Header.Del(fiber.HeaderContentType)
		c.Status(http.StatusNotModified)
	}
}

// matchesTag reports whether the lines of an If-None-Match header have the tag or "*". The comparison is weak (RFC 9110), since
// a proxy that compresses the answer makes the tag weak.
func matchesTag(lines [][]byte, tag string) bool {
	for _, line := range lines {
		if string(bytes.TrimSpace(line)) == "*" {
			return true
		}
		for candidate := range bytes.SplitSeq(line, []byte(",")) { // a tag with a comma is split here, but our tags have none
			if string(bytes.TrimPrefix(bytes.TrimSpace(candidate), []byte("W/"))) == tag {
				return true
			}
		}
	}
	return false
}
