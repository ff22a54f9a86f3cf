CREATE STREAM entry (
  XMLNAMESPACES(DEFAULT 'http://www.w3.org/2005/Atom', 'http://purl.org/syndication/history/1.0' AS fh),
  feed STRING NOT NULL PATH '../id',
  id STRING NOT NULL
) WITH (source = 'samples/standards/complete.xml', element = 'entry')
  PUNCTUATE ON 'feed' WHERE 'fh:complete' = '' CLOSES (feed = 'id');
SELECT feed, COUNT(*) AS entries FROM entry GROUP BY feed
