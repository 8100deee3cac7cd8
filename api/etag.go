package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"

	"github.com/gofiber/fiber/v2"
)

// answerUnchanged gives the successful answer to a GET an ETag, and takes the body away if the caller has it
// already. An export has none. It runs after the handler, so 304 has passed every check of 200. Strangers write dead
// letters, so the tag is a cryptographic hash of the body: nobody can write two answers with the same tag.
func answerUnchanged(c *fiber.Ctx) {
	response := c.Response()
	isRead := c.Method() == http.MethodGet || c.Method() == http.MethodHead
	if !isRead || response.StatusCode() != http.StatusOK || string(response.Header.ContentType()) == ndjson {
		return
	}
	sum := sha256.Sum256(response.Body())
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
	c.Set(fiber.HeaderETag, tag)
	if namesTag(c.Request().Header.PeekAll(fiber.HeaderIfNoneMatch), tag) {
		response.ResetBody()
		response.Header.Del(fiber.HeaderContentType)
		c.Status(http.StatusNotModified)
	}
}

// namesTag tells whether the lines of an If-None-Match header name the tag, or any tag. The comparison is weak (RFC
// 9110), since a proxy that compresses the answer weakens its tag.
func namesTag(lines [][]byte, tag string) bool {
	for _, line := range lines {
		if string(bytes.TrimSpace(line)) == "*" {
			return true
		}
		for named := range bytes.SplitSeq(line, []byte(",")) { // a tag with a comma splits into parts without quotes
			if string(bytes.TrimPrefix(bytes.TrimSpace(named), []byte("W/"))) == tag {
				return true
			}
		}
	}
	return false
}
