"""TPC-C for pgbench: nine tables, the five transactions as functions of PL/pgSQL, and the scripts that call them.

Mix, skew and sizes are those of TPC-C 5.11: clauses 2.4 to 2.8 for the transactions, 4.3 for the tables, 2.1.6 for NURand.
A draw of another warehouse may give the own one, last names are drawn with one constant in the tables and in the load, and a new
order reads no warehouse. Left out are columns of addresses, terminals, think times, the texts of answers, and the hundredth of new
orders that are rolled back. A transaction draws from a seed that pgbench sends, so that two servers get the same transactions.
"""

from __future__ import annotations

from validate import Workload

WAREHOUSES = 4

SETUP = """
create table warehouse (w_id int primary key, w_ytd numeric(12, 2), w_tax numeric(4, 4), w_name varchar(10)) with (fillfactor=50);
create table district (d_w_id int, d_id int, d_next_o_id int, d_ytd numeric(12, 2), d_tax numeric(4, 4), d_name varchar(10),
    primary key (d_w_id, d_id)) with (fillfactor=50);
create table customer (c_w_id int, c_d_id int, c_id int, c_last varchar(16), c_first varchar(16), c_credit char(2),
    c_discount numeric(4, 4), c_balance numeric(12, 2), c_ytd_payment numeric(12, 2), c_payment_cnt int, c_delivery_cnt int,
    c_data varchar(500));
create table history (h_c_id int, h_c_d_id int, h_c_w_id int, h_d_id int, h_w_id int, h_date timestamp, h_amount numeric(6, 2),
    h_data varchar(24));
create table orders (o_w_id int, o_d_id int, o_id int, o_c_id int, o_entry_d timestamp, o_carrier_id int, o_ol_cnt int);
create table new_order (no_w_id int, no_d_id int, no_o_id int);
create table order_line (ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int, ol_supply_w_id int,
    ol_delivery_d timestamp, ol_quantity int, ol_amount numeric(6, 2), ol_dist_info char(24));
create table item (i_id int primary key, i_name varchar(24), i_price numeric(5, 2), i_data varchar(50));
create table stock (s_w_id int, s_i_id int, s_quantity int, s_ytd int, s_order_cnt int, s_remote_cnt int, s_dist char(240),
    s_data varchar(50));

create function last_name(n int) returns text language sql immutable as $$
    select string_agg(('{BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING}'::text[])[n / p % 10 + 1], '' order by p desc)
    from unnest(array[1, 10, 100]) p $$;
create function uniform(low int, high int) returns int language sql volatile as $$
    select low + floor(random() * (high - low + 1))::int $$;
create function nurand(a int, low int, high int) returns int language sql volatile as $$
    select ((uniform(0, a) | uniform(low, high)) + 42 % (a + 1)) % (high - low + 1) + low $$;

select setseed(0.5);
insert into warehouse select w, 300000, 0.1, 'warehouse' from generate_series(1, :warehouses) w;
insert into district select w, d, 3001, 30000, 0.1, 'district' from generate_series(1, :warehouses) w, generate_series(1, 10) d;
insert into customer select w, d, c, last_name(case when c <= 1000 then c - 1 else nurand(255, 0, 999) end), 'first' || c,
        case when random() < 0.1 then 'BC' else 'GC' end, random() / 2, -10, 10, 1, 0, repeat('x', 400)
    from generate_series(1, :warehouses) w, generate_series(1, 10) d, generate_series(1, 3000) c;
insert into history select c_id, c_d_id, c_w_id, c_d_id, c_w_id, now(), 10, 'at the beginning' from customer;
insert into orders select w, d, o, row_number() over (partition by w, d order by random()), now(),
        case when o <= 2100 then uniform(1, 10) end, uniform(5, 15)
    from generate_series(1, :warehouses) w, generate_series(1, 10) d, generate_series(1, 3000) o;
insert into new_order select o_w_id, o_d_id, o_id from orders where o_id > 2100;
insert into order_line select o_w_id, o_d_id, o_id, l, uniform(1, 100000), o_w_id, case when o_id <= 2100 then now() end, 5,
        case when o_id <= 2100 then 0 else random() * 9999 end, repeat('d', 24)
    from orders, generate_series(1, o_ol_cnt) l;
insert into item select i, 'item' || i, 1 + random() * 99, repeat('i', 40) from generate_series(1, 100000) i;
insert into stock select w, i, uniform(10, 100), 0, 0, 0, repeat('s', 240), repeat('t', 40)
    from generate_series(1, :warehouses) w, generate_series(1, 100000) i;

alter table customer add primary key (c_w_id, c_d_id, c_id);
create index customer_name on customer (c_w_id, c_d_id, c_last, c_first);
alter table orders add primary key (o_w_id, o_d_id, o_id);
create index orders_customer on orders (o_w_id, o_d_id, o_c_id, o_id);
alter table new_order add primary key (no_w_id, no_d_id, no_o_id);
alter table order_line add primary key (ol_w_id, ol_d_id, ol_o_id, ol_number);
alter table stock add primary key (s_w_id, s_i_id);

create function a_customer(w int, d int) returns int language plpgsql volatile as $$
declare name text; found int[];
begin
    if random() >= 0.6 then
        return nurand(1023, 1, 3000);
    end if;
    name := last_name(nurand(255, 0, 999));
    found := array(select c_id from customer where c_w_id = w and c_d_id = d and c_last = name order by c_first);
    return found[(cardinality(found) + 1) / 2];
end $$;

create function new_order(w int, seed float8) returns numeric language plpgsql volatile as $$
declare d int; c int; o int; lines int; total numeric := 0; price numeric; rate numeric; line record;
begin
    perform setseed(seed);
    d := uniform(1, 10); c := nurand(1023, 1, 3000); lines := uniform(5, 15);
    select c_discount into rate from customer where c_w_id = w and c_d_id = d and c_id = c;
    update district set d_next_o_id = d_next_o_id + 1 where d_w_id = w and d_id = d returning d_next_o_id - 1 into o;
    insert into orders values (w, d, o, c, now(), null, lines);
    insert into new_order values (w, d, o);
    -- In order of the stock's key, so that two transactions do not wait for each other.
    for line in select number, i, supply, uniform(1, 10) as quantity from (
            select number, nurand(8191, 1, 100000) as i, case when random() < 0.01 then uniform(1, :warehouses) else w end as supply
            from generate_series(1, lines) number offset 0) chosen order by supply, i loop
        select i_price into price from item where i_id = line.i;
        update stock set s_quantity = s_quantity - line.quantity + case when s_quantity < line.quantity + 10 then 91 else 0 end,
            s_ytd = s_ytd + line.quantity, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + (line.supply <> w)::int
            where s_w_id = line.supply and s_i_id = line.i;
        insert into order_line values (w, d, o, line.number, line.i, line.supply, null, line.quantity, price * line.quantity,
            repeat('d', 24));
        total := total + price * line.quantity;
    end loop;
    return total * (1 - rate);
end $$;

create function payment(w int, seed float8) returns void language plpgsql volatile as $$
declare d int; cd int; cw int := w; c int; amount numeric;
begin
    perform setseed(seed);
    d := uniform(1, 10); cd := d; amount := uniform(100, 500000) / 100.0;
    if random() >= 0.85 then
        cw := uniform(1, :warehouses); cd := uniform(1, 10);
    end if;
    update warehouse set w_ytd = w_ytd + amount where w_id = w;
    update district set d_ytd = d_ytd + amount where d_w_id = w and d_id = d;
    c := a_customer(cw, cd);
    update customer set c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount, c_payment_cnt = c_payment_cnt + 1,
        c_data = case when c_credit = 'BC' then left(c || ' ' || cd || ' ' || cw || ' ' || amount || c_data, 400) else c_data end
        where c_w_id = cw and c_d_id = cd and c_id = c;
    insert into history values (c, cd, cw, d, w, now(), amount, 'payment');
end $$;

create function order_status(w int, seed float8) returns bigint language plpgsql volatile as $$
declare d int; c int; o int;
begin
    perform setseed(seed);
    d := uniform(1, 10); c := a_customer(w, d);
    perform c_balance from customer where c_w_id = w and c_d_id = d and c_id = c;
    select o_id into o from orders where o_w_id = w and o_d_id = d and o_c_id = c order by o_id desc limit 1;
    return (select count(ol_delivery_d) from order_line where ol_w_id = w and ol_d_id = d and ol_o_id = o);
end $$;

create function delivery(w int, seed float8) returns void language plpgsql volatile as $$
declare o int; c int; total numeric; carrier int;
begin
    perform setseed(seed);
    carrier := uniform(1, 10);
    for d in 1 .. 10 loop
        select no_o_id into o from new_order where no_w_id = w and no_d_id = d order by no_o_id limit 1 for update skip locked;
        continue when o is null;
        delete from new_order where no_w_id = w and no_d_id = d and no_o_id = o;
        update orders set o_carrier_id = carrier where o_w_id = w and o_d_id = d and o_id = o returning o_c_id into c;
        update order_line set ol_delivery_d = now() where ol_w_id = w and ol_d_id = d and ol_o_id = o;
        select sum(ol_amount) into total from order_line where ol_w_id = w and ol_d_id = d and ol_o_id = o;
        update customer set c_balance = c_balance + total, c_delivery_cnt = c_delivery_cnt + 1
            where c_w_id = w and c_d_id = d and c_id = c;
    end loop;
end $$;

create function stock_level(w int, seed float8) returns bigint language plpgsql volatile as $$
declare d int; next int; least int;
begin
    perform setseed(seed);
    d := uniform(1, 10); least := uniform(10, 20);
    select d_next_o_id into next from district where d_w_id = w and d_id = d;
    return (select count(distinct s_i_id) from order_line join stock on s_w_id = w and s_i_id = ol_i_id
        where ol_w_id = w and ol_d_id = d and ol_o_id between next - 20 and next - 1 and s_quantity < least);
end $$;
""".replace(":warehouses", str(WAREHOUSES))

#: The transactions and their shares in percent (clause 5.2.3).
MIX = {"new_order": 45, "payment": 43, "order_status": 4, "delivery": 4, "stock_level": 4}


def script(transaction: str) -> str:
    return f"\\set w random(1, {WAREHOUSES})\n\\set seed random(0, 1000000000)\nselect {transaction}(:w, :seed / 1000000000.0);"


TPCC = Workload(
    "tpcc",
    f"TPC-C's five transactions, {WAREHOUSES} warehouses",
    SETUP,
    [(share, script(transaction)) for transaction, share in MIX.items()],
    3000,
    [1024, 4096, 8192],
    options=["max_parallel_workers_per_gather=0"],
)
