CREATE TABLE customers (
    id int PRIMARY KEY,
    name text NOT NULL,
    city text NOT NULL,
    country text NOT NULL
);

CREATE TABLE products (
    id int PRIMARY KEY,
    name text NOT NULL,
    description text NOT NULL,
    price_cents int NOT NULL
);

-- Every rate that ever held stays, since invoices of back then need it.
CREATE TABLE tax_rates (
    country text NOT NULL,
    since timestamptz NOT NULL,
    percent int NOT NULL,
    PRIMARY KEY (country, since)
);

CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer int NOT NULL REFERENCES customers,
    item text NOT NULL,
    quantity int NOT NULL,
    total_cents bigint NOT NULL,
    country text NOT NULL,
    status text NOT NULL DEFAULT 'placed',
    placed_at timestamptz NOT NULL
);
