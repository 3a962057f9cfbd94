"""A page as a parser sees it."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """What a browser would see: tags with attributes, comments, and text."""

    def __init__(self, html):
        super().__init__()
        self.html = html
        self.tags, self.words, self.comments = [], [], []
        self.feed(html)
        self.close()
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)

    def handle_comment(self, data):
        self.comments.append(data)

    def of(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]
