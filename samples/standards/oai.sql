CREATE STREAM record (
  id STRING NOT NULL PATH 'header/identifier',
  spec STRING NOT NULL PATH 'header/setSpec',
  status STRING PATH 'header/@status'
) WITH (source = 'samples/standards/oai.xml', element = '{http://www.openarchives.org/OAI/2.0/}record')
  PUNCTUATE ON 'resumptionToken' WHERE '.' = '' CLOSES ALL;
SELECT spec, COUNT(*) AS records, COUNT(status) AS deleted FROM record GROUP BY spec
