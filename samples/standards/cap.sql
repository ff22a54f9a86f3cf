CREATE STREAM alert (
  XMLNAMESPACES(DEFAULT 'urn:oasis:names:tc:emergency:cap:1.2'),
  incident STRING NOT NULL PATH 'incidents',
  sent TIMESTAMP NOT NULL
) WITH (source = 'samples/standards/cap.xml', element = 'alert')
  PUNCTUATE ON 'alert' WHERE 'msgType' = 'Cancel' CLOSES (incident = 'incidents');
SELECT incident, COUNT(*) AS messages, MAX(sent) AS ended FROM alert GROUP BY incident
