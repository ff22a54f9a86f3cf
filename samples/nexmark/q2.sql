-- Query 2, selection: the bids on some auctions.

CREATE STREAM bidder (
  auction INT NOT NULL PATH '../@id',
  person INT NOT NULL PATH 'person_ref/@person',
  bid INT NOT NULL,
  time INT NOT NULL
) WITH (source = 'samples/nexmark/nexmark.xml', element = 'open_auction/bidder');

SELECT auction, bid FROM bidder WHERE MOD(auction, 23) = 0;
