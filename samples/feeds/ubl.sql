-- A UBL 2.1 invoice: does the total of each tax rate agree with the lines of this rate? Lines and totals are two
-- streams over one document; both read the invoice number from an enclosing element.

CREATE STREAM line (
  XMLNAMESPACES('urn:oasis:names:specification:ubl:schema:xsd:Invoice-2' AS inv,
                'urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2' AS cac,
                'urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2' AS cbc),
  invoice STRING PATH '../cbc:ID',
  description STRING PATH 'cac:Item/cbc:Description[1]',
  rate STRING PATH 'cac:Item/cac:ClassifiedTaxCategory/cbc:ID',
  amount DECIMAL(12,2) NOT NULL PATH 'cbc:LineExtensionAmount'
) WITH (source = 'samples/feeds/ubl.xml', element = 'inv:Invoice/cac:InvoiceLine');

CREATE STREAM tax (
  XMLNAMESPACES('urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2' AS cac,
                'urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2' AS cbc),
  invoice STRING PATH '../../cbc:ID',
  rate STRING PATH 'cac:TaxCategory/cbc:ID',
  taxable DECIMAL(12,2) NOT NULL PATH 'cbc:TaxableAmount',
  currency STRING PATH 'cbc:TaxableAmount/@currencyID'
) WITH (source = 'samples/feeds/ubl.xml', element = 'cac:TaxTotal/cac:TaxSubtotal');

SELECT tax.invoice, tax.rate, tax.taxable, tax.currency, SUM(line.amount) AS lines, COUNT(line.description) AS described
FROM tax JOIN line ON tax.invoice = line.invoice AND tax.rate = line.rate
GROUP BY tax.invoice, tax.rate, tax.taxable, tax.currency;
