CREATE STREAM entry (
  XMLNAMESPACES(DEFAULT 'urn:iso:std:iso:20022:tech:xsd:camt.053.001.08'),
  statement STRING NOT NULL PATH '../Id',
  amount DECIMAL(18, 2) NOT NULL PATH 'Amt',
  kind STRING NOT NULL PATH 'CdtDbtInd'
) WITH (source = 'samples/standards/camt.xml', element = 'Ntry')
  PUNCTUATE ON 'BkToCstmrStmt' WHERE 'GrpHdr/MsgPgntn/LastPgInd' = 'true' CLOSES (statement = 'Stmt/Id');
SELECT statement, SUM(CASE kind WHEN 'CRDT' THEN amount ELSE -amount END) AS total FROM entry GROUP BY statement
